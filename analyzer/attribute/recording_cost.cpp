// SPDX-License-Identifier: Apache-2.0
#include "analyzer/attribute/recording_cost.h"

#include <algorithm>

namespace gpuwatch::attribute {
namespace {

// A recorded call costs at most this on the machines that the recorder was measured on (docs/performance.md).
constexpr double kCallCostNs = 50;
// What CUPTI adds to the call that enqueues a kernel, copy or memset: 1.0 to 1.5 us on an H200 (medians of 21
// alternating blocks of 12 000 launches; docs/gpu-results). No other GPU was measured; CUPTI's stand-in of
// the simulated device takes less.
constexpr double kTracedOperationCostNs = 1300;

// Operations whose enqueuing call returned when their device had nothing left to do: what made this call
// longer made the job longer. Where the device had work, that hid it.
size_t operations_waited_for(const model::Process& process, const model::Device& device,
                             model::TimeSpan span) {
  size_t count = 0;
  model::Ns busy_until = span.begin;
  for (const model::DeviceOp& operation : device.operations) {
    if (operation.kind > trace::RecordKind::GraphRun) continue;  // no work of the device
    if (operation.begin >= span.begin && operation.begin < span.end &&
        operation.launch_call != model::kNone) {
      const auto& calls = process.threads.at(operation.launch_thread).calls;
      count += calls.at(operation.launch_call).end >= busy_until;
    }
    busy_until = std::max(busy_until, operation.end);
  }
  return count;
}

double overhead_ns(const model::Process& process, const RankAttribution& rank, model::TimeSpan span) {
  const auto& calls = process.threads.at(process.training_thread).calls;
  const auto inside = std::count_if(calls.begin(), calls.end(), [&](const model::HostCall& call) {
    return call.begin >= span.begin && call.begin < span.end;
  });
  const size_t traced =
      rank.device == model::kNone ? 0 : operations_waited_for(process, process.devices.at(rank.device), span);
  return double(inside) * kCallCostNs + double(traced) * kTracedOperationCostNs;
}

}  // namespace

std::optional<double> recording_cost_share(const model::Process& process, const RankAttribution& rank) {
  if (!process.imported_from.empty() || process.training_thread == model::kNone || rank.wall_ns <= 0 ||
      rank.steps.empty())
    return std::nullopt;
  const model::TimeSpan span{rank.steps.front().step.begin, rank.steps.back().step.end};
  return overhead_ns(process, rank, span) / double(span.length());
}

}  // namespace gpuwatch::attribute
