// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/device_steps.h"

#include <algorithm>

#include "analyzer/model/kernel_tokens.h"
#include "analyzer/model/launch_period.h"

namespace gpuwatch::model {
namespace {

struct Kernels {
  std::vector<uint32_t> tokens;
  std::vector<const DeviceOp*> operations;
};

Kernels kernels_of(const Device& device, const std::vector<uint32_t>& tokens) {
  Kernels kernels;
  for (const DeviceOp& op : device.operations) {
    if (op.kind != trace::RecordKind::Kernel) continue;
    kernels.tokens.push_back(op.kernel < tokens.size() ? tokens[op.kernel] : op.kernel);
    kernels.operations.push_back(&op);
  }
  return kernels;
}

// Where in the period the device pauses longest: a step's host work is mostly there.
size_t longest_pause(const Kernels& kernels, const LaunchPeriod& period) {
  std::vector<Ns> pause(period.length, 0);
  for (size_t r = 0; r + 2 < period.ends.size(); ++r) {
    if (period.ends[r + 1] - period.ends[r] != period.length) continue;
    for (size_t i = 0; i < period.length; ++i) {
      const size_t at = period.ends[r + 1] + i;
      if (at == 0 || at >= kernels.operations.size()) break;
      pause[i] += std::max<Ns>(0, kernels.operations[at]->begin - kernels.operations[at - 1]->end);
    }
  }
  return static_cast<size_t>(std::ranges::max_element(pause) - pause.begin());
}

std::vector<Step> steps_of(const Kernels& kernels, const LaunchPeriod& period) {
  if (period.length == 0) return {};
  const size_t shift = longest_pause(kernels, period);
  std::vector<Step> steps;
  for (size_t r = 0; r + 1 < period.ends.size(); ++r) {
    const size_t first = period.ends[r] + shift, last = period.ends[r + 1] + shift;
    if (last > kernels.operations.size() || last == 0) break;
    const bool is_longer = last - first > 2 * period.length;  // something that is no step lies between
    const size_t begins_at = is_longer ? last - period.length : first;
    const Ns begin = begins_at == 0 || is_longer ? kernels.operations[begins_at]->begin
                                                 : kernels.operations[begins_at - 1]->end;
    const Ns end = kernels.operations[last - 1]->end;
    if (end > begin && (steps.empty() || begin >= steps.back().end)) steps.push_back({begin, end, 0, false});
  }
  return steps;
}

}  // namespace

std::vector<Step> find_device_steps(const Run& run, const Process& process) {
  const auto most = std::ranges::max_element(process.devices, {},
                                             [](const Device& device) { return device.operations.size(); });
  if (most == process.devices.end()) return {};
  const Kernels launches = kernels_of(*most, kernel_tokens(run, KernelIdentity::kLaunch));
  if (auto steps = steps_of(launches, find_launch_period(launches.tokens)); !steps.empty()) return steps;
  const Kernels names = kernels_of(*most, kernel_tokens(run, KernelIdentity::kName));
  if (auto steps = steps_of(names, find_launch_period(names.tokens)); !steps.empty()) return steps;
  return steps_of(names, find_varying_period(names.tokens));
}

}  // namespace gpuwatch::model
