// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/captured_step.h"

#include <algorithm>

namespace gpuwatch::advise {

predict::StreamReplayInput CapturedStep::expected() const {
  return captured(1, kRecurs, kGraphKernelGapNs);
}

bool CapturedStep::is_worth_it() const {
  return input_.assumed_step_ms >= predict::replay(expected()).step_ms * kLeastSpeedup;
}

std::optional<predict::Prediction> CapturedStep::prediction() const {
  auto result = stream_prediction(input_, expected());
  const auto low = stream_prediction(input_, captured(kLeastOfKept, kRecurs, 0)),
             high = stream_prediction(input_, captured(kMostOfKept, 0, kGraphKernelGapNs));
  if (!result || !low || !high) return std::nullopt;
  result->value.low = std::min(result->value.low, low->value.low);
  result->value.high = std::max(result->value.high, high->value.high);
  result->speedup.high = std::max(result->speedup.high, low->speedup.high);
  result->speedup.low = std::min(result->speedup.low, high->speedup.low);
  return result;
}

predict::StreamReplayInput CapturedStep::captured(double of_kept, double recurs, double gap_ns) const {
  predict::Capture capture{
      .longest_gap_ns = gaps_.longest_dispatch_ns(), .recurring_share = recurs, .kernel_gap_ns = gap_ns};
  predict::StreamReplayInput changed = *input_.assumed_streams;
  if (!gone_.empty()) predict::drop_synchronizations(changed, waits_at(gone_));
  if (left_alone_) {
    capture.with_optimizer = false;
    capture.kept_launches = kCompiledLaunches * of_kept;
    capture.kept_share = kCompiledShare * of_kept;
    leave_alone(changed);
  }
  predict::capture_launches(changed, capture);
  return changed;
}

void CapturedStep::leave_alone(predict::StreamReplayInput& recording) const {
  for (const LaunchSource& source : *left_alone_) {
    const predict::EventFilter is_of_source = is_one_of(source.members),
                               is_of_backward = is_one_of(source.backward);
    for (const predict::HostEvent& event : recording.events)
      if (event.op_count > 0 && (is_of_source(event) || is_of_backward(event)))
        for (uint32_t i = 0; i < event.op_count; ++i)
          recording.ops[event.first_op + i].is_of_optimizer = true;  // as those of an optimizer
  }
}

}  // namespace gpuwatch::advise
