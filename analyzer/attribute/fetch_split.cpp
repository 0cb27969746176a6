// SPDX-License-Identifier: Apache-2.0
#include "analyzer/attribute/fetch_split.h"

#include <algorithm>

namespace gpuwatch::attribute {

using model::Batch;
using model::HostCall;
using model::kNone;
using model::Ns;
using trace::OpClass;

Ns share_until(Ns amount, Ns when, Ns whole) {
  return whole > 0 ? static_cast<Ns>(static_cast<__int128>(amount) * when / whole) : 0;
}

FetchSplit::FetchSplit(const Batch& batch, const Activity* fetching, const std::vector<HostCall>* calls)
    : batch_(batch), fetching_(fetching), calls_(calls) {
  const Ns length = batch.fetch.length();
  const Ns known = std::clamp<Ns>(batch.fetch_blocked_ns + batch.collate_ns, 0, length);
  transform_ns_ = length - known;
  delayed_ns_ = std::clamp<Ns>(batch.fetch_run_delay_ns, 0, transform_ns_);
}

void FetchSplit::fill(Tiling& tiling, Ns end, Cause cause) const {
  if (fetching_) {
    fill_in_place(tiling, end, cause);
  } else {
    fill_evenly(tiling, end, cause);
  }
}

void FetchSplit::fill_in_place(Tiling& tiling, Ns end, Cause cause) const {
  for (size_t i = fetching_->index_at(tiling.cursor()); tiling.cursor() < end; ++i) {
    const Stretch stretch = (*fetching_)[i];
    cause.category = category_at(stretch);
    const Ns until = std::min(stretch.end, end);
    if (cause.category == Category::InputTransform) {
      fill_transform(tiling, until, cause);
    } else {
      tiling.fill(until, cause);
    }
  }
}

Category FetchSplit::category_at(const Stretch& stretch) const {
  if (stretch.call == kNone) return Category::InputTransform;
  const OpClass op_class = (*calls_)[stretch.call].op_class;
  if (is_input_io(op_class)) return Category::InputIo;
  return op_class == OpClass::Collate ? Category::InputCollate : Category::InputTransform;
}

// Run delay within a stretch of the thread's own work, in proportion to its length.
void FetchSplit::fill_transform(Tiling& tiling, Ns end, Cause cause) const {
  const Ns from = tiling.cursor() - batch_.fetch.begin, to = end - batch_.fetch.begin;
  const Ns delayed =
      share_until(delayed_ns_, to, transform_ns_) - share_until(delayed_ns_, from, transform_ns_);
  cause.category = Category::InputCpuStarved;
  tiling.fill_at_most(end, delayed, cause);
  cause.category = Category::InputTransform;
  tiling.fill(end, cause);
}

void FetchSplit::fill_evenly(Tiling& tiling, Ns end, Cause cause) const {
  const Ns length = batch_.fetch.length();
  const Ns from = tiling.cursor() - batch_.fetch.begin, to = end - batch_.fetch.begin;
  const auto fill_share = [&](Ns amount, Category category) {
    cause.category = category;
    tiling.fill_at_most(end, share_until(amount, to, length) - share_until(amount, from, length), cause);
  };
  const Ns blocked = std::clamp<Ns>(batch_.fetch_blocked_ns, 0, length);
  fill_share(blocked, Category::InputIo);
  fill_share(delayed_ns_, Category::InputCpuStarved);
  fill_share(std::clamp<Ns>(batch_.collate_ns, 0, length - blocked), Category::InputCollate);
  cause.category = Category::InputTransform;
  tiling.fill(end, cause);
}

}  // namespace gpuwatch::attribute
