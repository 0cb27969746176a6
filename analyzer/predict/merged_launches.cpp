// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/merged_launches.h"

#include <utility>
#include <vector>

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

// A count that the host waits for, a tensor filled with zeros: of one operation on all there is none.
void drop_between(HostEvent& event, const Merge& merge) {
  if (event.gap_ns <= merge.longest_gap_ns) event.gap_ns = 0;
  event.cost_ns = 0;
  event.waits_for_stream = false;
  event.role = event.op_count ? HostRole::kEnqueue : HostRole::kWork;
}

}  // namespace

void merge_launches(StreamReplayInput& recording, const EventFilter& which, const Merge& merge) {
  bool is_in_run = false;
  uint32_t step = model::kNone;
  std::vector<HostEvent*> between;  // since the last launch of a run
  for (HostEvent& event : recording.events) {
    if (std::exchange(step, event.step) != event.step) is_in_run = false;
    if (event.op_class != trace::OpClass::Launch || event.role != HostRole::kEnqueue) {
      const bool is_part = !event.is_input && event.op_class != trace::OpClass::GraphLaunch;
      if (is_in_run && !merge.keeps_kernels && is_part) between.push_back(&event);
      continue;
    }
    const bool is_merged = which(event);
    if (is_merged && is_in_run) {
      merge_into_run(recording, event, merge);
      for (HostEvent* call : between) drop_between(*call, merge);
    }
    between.clear();
    is_in_run = is_merged;
  }
}

}  // namespace gpuwatch::predict
