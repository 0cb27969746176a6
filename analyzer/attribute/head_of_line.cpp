// SPDX-License-Identifier: Apache-2.0
#include "analyzer/attribute/head_of_line.h"

#include <algorithm>

namespace gpuwatch::attribute {

using model::Batch;
using model::LoaderPass;
using model::Ns;

Predecessor predecessor(const LoaderPass& pass, uint32_t batch) {
  // Round robin puts it one turn back; unequal workers and out-of-order delivery a few turns.
  constexpr uint32_t kTurns = 8;
  const uint32_t reach = static_cast<uint32_t>(pass.workers.size()) * kTurns;
  for (uint32_t back = 1; back <= reach && back <= batch; ++back) {
    const Batch& earlier = pass.batches[batch - back];
    if (earlier.worker == pass.batches[batch].worker) return {true, earlier.fetch.end};
  }
  return {};
}

Ns alone_since(const LoaderPass& pass, uint32_t batch) {
  const Batch& late = pass.batches[batch];
  Ns since = 0;
  for (uint32_t i = batch + 1; i < pass.batches.size(); ++i) {
    const Batch& other = pass.batches[i];
    if (other.sent == 0 || other.sent >= late.fetch.end) break;
    if (other.worker == late.worker) continue;
    if (other.fetch.length() <= 0) return late.fetch.end;
    since = std::max(since, other.fetch.end);
  }
  return since == 0 ? late.fetch.end : std::min(since, late.fetch.end);
}

}  // namespace gpuwatch::attribute
