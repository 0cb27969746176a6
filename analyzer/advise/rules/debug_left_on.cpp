// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

extern const Rule kDebugLeftOn;

namespace {

enum class Needs { kNothing, kDevice, kCommunication };

// A switch is on when its recorded value is one of `on` ("*": any but "", "0", "off").
struct Switch {
  const char* fact;
  std::string_view on;
  Needs needs;
  const char* cost;
  const char* unset;
};

constexpr Switch kSwitches[] = {
    {"CUDA_LAUNCH_BLOCKING", "*", Needs::kDevice, "every launch waits for its kernel",
     "unset CUDA_LAUNCH_BLOCKING"},
    {"anomaly_mode", "on", Needs::kNothing, "autograd keeps a stack for each operation and looks for NaN",
     "torch.autograd.set_detect_anomaly(False)"},
    {"profiler", "on", Needs::kNothing, "every operation is traced",
     "run without the profiler, or with a schedule"},
    {"TORCH_DISTRIBUTED_DEBUG", "DETAIL", Needs::kNothing, "every collective is checked across ranks first",
     "unset TORCH_DISTRIBUTED_DEBUG"},
    {"NCCL_DEBUG", "TRACE", Needs::kCommunication, "every NCCL call is logged", "NCCL_DEBUG=WARN"},
    {"NCCL_DEBUG_SUBSYS", "ALL", Needs::kCommunication, "every NCCL call is logged",
     "unset NCCL_DEBUG_SUBSYS"},
    {"PYTHONDEVMODE", "*", Needs::kNothing, "Python checks each allocation", "unset PYTHONDEVMODE"},
    {"PYTHONTRACEMALLOC", "*", Needs::kNothing, "Python keeps a stack for each allocation",
     "unset PYTHONTRACEMALLOC"},
    {"PYTHONMALLOC", "debug", Needs::kNothing, "Python checks each allocation", "unset PYTHONMALLOC"},
};

bool is_on(const Switch& it, std::string_view value) {
  if (it.on == "*") return !value.empty() && value != "0" && value != "off";
  return value.size() == it.on.size() &&
         std::equal(value.begin(), value.end(), it.on.begin(), [](char a, char b) {
           return (a | 0x20) == (b | 0x20);  // letters only: NCCL and PyTorch take either case
         });
}

bool applies(const RuleInput& input, Needs needs) {
  using attribute::Category;
  switch (needs) {
    case Needs::kDevice:
      return input.device || input.rank.time(Category::DeviceUnobserved) > 0;
    case Needs::kCommunication:
      return input.process.world_size > 1;
    case Needs::kNothing:
      break;
  }
  return true;
}

// What launches that wait cost is the time in which the device does nothing.
std::optional<double> ceiling(const RuleInput& input, bool is_launch_blocking) {
  const double busy = input.device_floor_ms();
  if (!is_launch_blocking || busy <= 0) return std::nullopt;
  return std::max(1.0, input.now_ms / busy);
}

std::optional<Finding> evaluate(const RuleInput& input) {
  std::string names, costs, unset;
  std::string_view first;
  Finding finding = make_finding(kDebugLeftOn, input, 0);
  for (const Switch& it : kSwitches) {
    const auto found = input.process.facts.find(it.fact);
    if (found == input.process.facts.end() || !is_on(it, found->second) || !applies(input, it.needs))
      continue;
    if (first.empty()) first = it.fact;
    names += fmt::format("{}{}={}", names.empty() ? "" : ", ", it.fact, found->second);
    costs += fmt::format("{}{}", costs.empty() ? "" : "; ", it.cost);
    unset += fmt::format("{}{}", unset.empty() ? "" : ", ", it.unset);
    finding.evidence.push_back({it.fact, 1, "on"});
  }
  if (first.empty()) return std::nullopt;
  finding.title = fmt::format("Debugging is on ({}): {}", names, costs);
  finding.fix.change = NamedChange{std::string(first), "off"};
  finding.fix.summary = unset;
  finding.ceiling_speedup = ceiling(input, first == "CUDA_LAUNCH_BLOCKING");
  if (finding.ceiling_speedup) {
    finding.lost_share = 1 - 1 / *finding.ceiling_speedup;
    finding.severity = make_finding(kDebugLeftOn, input, finding.lost_share).severity;
  }
  return finding;
}

}  // namespace

const Rule kDebugLeftOn{
    "debug-left-on",
    "A switch that is meant for debugging slows the run: CUDA_LAUNCH_BLOCKING, autograd's anomaly mode, a "
    "running "
    "profiler, TORCH_DISTRIBUTED_DEBUG=DETAIL, NCCL_DEBUG=TRACE, Python's development mode or tracemalloc.",
    "The switch's own value in the environment, or as PyTorch says it at an optimizer step. What it costs is "
    "not in one run: a ceiling is given for CUDA_LAUNCH_BLOCKING alone (the device's idle time).",
    "Unset it.",
    {},
    evaluate,
    true};

}  // namespace gpuwatch::advise
