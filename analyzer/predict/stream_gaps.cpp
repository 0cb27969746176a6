// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/stream_gaps.h"

#include <algorithm>

#include "analyzer/model/quantile.h"

namespace gpuwatch::predict {
namespace {

using model::Ns;

constexpr Ns kLongestNs = 10'000;  // more is some other wait
// Enqueued in time is what was called this long before: on an idle stream a kernel begins 12 us after its
// call began (11.6 to 12.8 on that H200).
constexpr Ns kEnqueueNs = 15'000;
constexpr size_t kLeastKnown = 10;  // to stand for the others

}  // namespace

void StreamGaps::note(StreamOp& recorded, uint32_t index, const model::DeviceOp& before,
                      const model::DeviceOp& op, Ns called) {
  const Kinds kinds{before.kind, op.kind};
  const Ns gap = std::max<Ns>(0, op.begin - before.end);  // they may overlap (programmatic launches)
  if (before.end < called + kEnqueueNs || gap > kLongestNs) {
    unknown_.emplace_back(index, kinds);
    return;
  }
  recorded.gap_ns = double(gap);
  known_[kinds].push_back(gap);
}

void StreamGaps::fill(std::vector<StreamOp>& ops) {
  std::map<Kinds, double> usual;
  for (auto& [kinds, gaps] : known_)
    if (gaps.size() >= kLeastKnown) usual[kinds] = double(model::median(std::move(gaps)));
  for (const auto& [op, kinds] : unknown_)
    if (const auto found = usual.find(kinds); found != usual.end()) ops[op].gap_ns = found->second;
}

}  // namespace gpuwatch::predict
