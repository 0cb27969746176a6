// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/work_on_results.h"

#include <algorithm>
#include <utility>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/host_calls.h"

namespace gpuwatch::advise {
namespace {

bool follows_data(const RuleInput& input, const std::vector<predict::HostEvent>& events, size_t place) {
  while (place > 0 && events[place - 1].role == predict::HostRole::kSync) --place;
  return place > 0 && copies(input, events[place - 1], trace::RecordKind::CopyD2H, uint64_t(kFewBytes));
}

// Data that are not waited for are not copied either, at best: they stay on the GPU.
double step_ms_without(const RuleInput& input, bool without_copies) {
  const predict::EventFilter waits = [&](const predict::HostEvent& event) {
    return is_sync_point(input, event);
  };
  predict::StreamReplayInput running = *input.assumed_streams;
  for (const predict::HostEvent& event : running.events)
    if (without_copies && event.op_count > 0 && waits(event)) running.ops[event.first_op].duration_ns = 0;
  predict::drop_synchronizations(running, waits);
  return predict::replay(running).step_ms;
}

}  // namespace

bool copies(const RuleInput& input, const predict::HostEvent& event, trace::RecordKind kind, uint64_t bytes) {
  if (event.op_count == 0) return false;
  const auto& op = input.device->operations[input.assumed_streams->ops[event.first_op].device_op];
  return op.kind == kind && op.bytes >= bytes;
}

double step_ms_without_waits(const RuleInput& input) {
  return step_ms_without(input, false);
}

bool is_mostly_on_results(const RuleInput& input, const HostGaps& gaps) {
  constexpr double kMostOfIt = 0.5;
  predict::StreamReplayInput idle = *input.assumed_streams;  // the waits stay
  double all_ns = 0, on_results_ns = 0, steps = 0;
  uint32_t last_step = model::kNone;
  for (size_t i = 0; i < idle.events.size(); ++i) {
    const double work_ns = std::min(idle.events[i].gap_ns, gaps.own_ns()[i]);
    if (work_ns <= 0) continue;
    idle.events[i].gap_ns -= work_ns;
    all_ns += work_ns;
    steps += std::exchange(last_step, idle.events[i].step) != idle.events[i].step;
    if (follows_data(input, idle.events, i)) on_results_ns += work_ns;
  }
  return gaps.own_share() >= kLeastHostWork && steps >= kLeastWorkSteps * double(idle.steps) &&
         on_results_ns > kMostOfIt * all_ns &&
         predict::replay(idle).step_ms < step_ms_without(input, true) * kLeastSpeedup;
}

}  // namespace gpuwatch::advise
