// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/merged_launches.h"

#include <algorithm>
#include <utility>

namespace gpuwatch::predict {
namespace {

void merge_into_run(StreamReplayInput& recording, HostEvent& event, const Merge& merge) {
  if (event.gap_ns <= merge.longest_gap_ns) event.gap_ns *= merge.kept_share;
  event.cost_ns *= merge.kept_share;
  for (uint32_t i = event.first_op; i < event.first_op + event.op_count; ++i) {
    StreamOp& op = recording.ops[i];
    op.latency_ns = op.gap_ns = 0;
    if (!merge.keeps_kernels) op.duration_ns = 0;
  }
}

}  // namespace

void merge_launches(StreamReplayInput& recording, const EventFilter& which, const Merge& merge) {
  bool is_in_run = false;
  uint32_t step = model::kNone;
  for (HostEvent& event : recording.events) {
    if (std::exchange(step, event.step) != event.step) is_in_run = false;
    if (event.op_class != trace::OpClass::Launch || event.role != HostRole::kEnqueue) continue;
    const bool is_merged = which(event);
    if (is_merged && is_in_run) merge_into_run(recording, event, merge);
    is_in_run = is_merged;
  }
}

}  // namespace gpuwatch::predict
