// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "analyzer/advise/remedy_words.h"
#include "analyzer/advise/rule.h"
#include "analyzer/model/sampled_share.h"
#include "analyzer/model/training_stacks.h"

namespace gpuwatch::advise {

extern const Rule kDebugLeftOn;

namespace {

enum class Needs { kNothing, kDevice, kCommunication };

// On when the recorded value equals `on` ("*": any but "", "0", "off").
struct DebugSetting {
  const char* fact;
  std::string_view on;
  Needs needs;
  const char* cost;
  const char* fix;
  std::initializer_list<attribute::Bottleneck> distorts;
};

constexpr auto kHost = attribute::Bottleneck::Host, kInput = attribute::Bottleneck::Input,
               kCompute = attribute::Bottleneck::Compute,
               kCommunication = attribute::Bottleneck::Communication;

const DebugSetting kSettings[] = {
    {"CUDA_LAUNCH_BLOCKING",
     "*",
     Needs::kDevice,
     "every kernel launch waits for its kernel",
     "unset CUDA_LAUNCH_BLOCKING",
     {kHost}},
    {"anomaly_mode",
     "on",
     Needs::kNothing,
     "autograd keeps a stack for each operation and looks for NaN",
     "remove torch.autograd.set_detect_anomaly(True) or detect_anomaly()",
     {kHost, kCompute}},  // it looks on the GPU
    {"keras_run_eagerly",
     "on",
     Needs::kNothing,
     "Keras runs each step operation by operation from Python, not as one graph",
     "call model.compile() without run_eagerly=True",
     {kHost, kCompute}},
    {"tf_run_functions_eagerly",
     "on",
     Needs::kNothing,
     "TensorFlow runs each tf.function operation by operation from Python",
     "call tf.config.run_functions_eagerly(False)",
     {kHost, kCompute}},
    {"profiler",
     "on",
     Needs::kNothing,
     "every operation is traced",
     "run without the profiler or give it a schedule",
     {kHost}},
    {"TORCH_DISTRIBUTED_DEBUG",
     "DETAIL",
     Needs::kNothing,
     "every collective is checked across ranks first",
     "unset TORCH_DISTRIBUTED_DEBUG",
     {kHost, kCommunication}},
    {"NCCL_DEBUG",
     "TRACE",
     Needs::kCommunication,
     "every NCCL call is logged",
     "set NCCL_DEBUG=WARN",
     {kCommunication}},
    {"NCCL_DEBUG_SUBSYS",
     "ALL",
     Needs::kCommunication,
     "every NCCL call is logged",
     "unset NCCL_DEBUG_SUBSYS",
     {kCommunication}},
    {"deterministic_algorithms",
     "on",
     Needs::kDevice,
     "deterministic kernels are slower, and some operations wait for the GPU",
     "call torch.use_deterministic_algorithms(False)",
     {}},  // left on for repeatable results: nothing shows that it, and not the script, makes the host wait
    {"TORCH_SHOW_CPP_STACKTRACES",
     "*",
     Needs::kNothing,
     "PyTorch unwinds the stack at each error and warning",
     "unset TORCH_SHOW_CPP_STACKTRACES",
     {}},
    {"PYTHONDEVMODE",
     "*",
     Needs::kNothing,
     "Python checks each allocation",
     "unset PYTHONDEVMODE",
     {kHost, kInput}},
    {"PYTHONTRACEMALLOC",
     "*",
     Needs::kNothing,
     "Python keeps a stack for each allocation",
     "unset PYTHONTRACEMALLOC",
     {kHost, kInput}},
    {"PYTHONMALLOC",
     "debug",
     Needs::kNothing,
     "Python checks each allocation",
     "unset PYTHONMALLOC",
     {kHost, kInput}},
};

bool is_on(const DebugSetting& it, std::string_view value) {
  if (it.on == "*") return !value.empty() && value != "0" && value != "off";
  return value.size() == it.on.size() &&
         std::equal(value.begin(), value.end(), it.on.begin(), [](char a, char b) {
           return (a | 0x20) == (b | 0x20);  // letters only: NCCL and PyTorch accept upper and lower case
         });
}

// Where the script switches anomaly mode on around a part of the step, it is off again when the optimizer's
// step is asked. But PyTorch then has the stack of each operation formatted, which else only its compiler
// does.
// Of the stack samples; 0: too few to tell.
double formatting_share(const RuleInput& input) {
  constexpr size_t kLeastSamples = 3;
  constexpr double kLeastShare = 0.01;  // low end
  if (!speaks_torch(input.process)) return 0;
  std::vector<model::TimeSpan> steps;
  for (const attribute::StepAttribution& step : input.rank.steps)
    steps.push_back({step.step.begin, step.step.end});
  size_t all = 0, formatting = 0;
  for (const model::WorkerStack* sample : model::training_samples(input.process, steps)) {
    const auto text = input.run.texts.find(sample->text);
    if (text == input.run.texts.end()) continue;
    ++all;
    formatting += text->second.find("traceback.py") != std::string::npos &&
                  text->second.find(" format_stack") != std::string::npos &&
                  text->second.find("torch/_dynamo/") == std::string::npos;
  }
  if (formatting < kLeastSamples) return 0;
  const model::SampledShare share = model::sampled_share(double(formatting) / double(all), double(all));
  return share.low >= kLeastShare ? share.share : 0;
}

struct Seen {
  std::string value;  // "": not set, or not known
  Evidence evidence;
};

Seen seen(const RuleInput& input, const std::string& setting) {
  const auto fact = input.process.facts.find(setting);
  if (fact != input.process.facts.end())
    return {fact->second, {fmt::format("{}={} in", setting, fact->second), 1, "process"}};
  const double share = setting == "anomaly_mode" ? formatting_share(input) : 0;
  if (share <= 0) return {};
  return {"on",
          {"operations' stacks are formatted, as anomaly mode does", 100 * share, "% of the stack samples"}};
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

// Launches that wait for their kernel can cost no more than the time that the GPU idles.
std::optional<double> upper_bound(const RuleInput& input, bool is_launch_blocking) {
  const double busy = input.device_floor_ms();
  if (!is_launch_blocking || busy <= 0) return std::nullopt;
  return std::max(1.0, input.now_ms / busy);
}

std::string sentence(std::string words) {
  if (!words.empty() && words[0] >= 'a' && words[0] <= 'z') words[0] = char(words[0] - 'a' + 'A');
  return words;
}

void add_sizes(Finding& finding, const RuleInput& input) {
  if (finding.ceiling_speedup)
    finding.evidence.push_back({"GPU idle, at most", 100 * finding.lost_share, "% of the step"});
  const double steps = double(input.rank.steps.size());
  if (steps > 0) finding.evidence.push_back({"step time", input.rank.mean_step_ms(), "ms"});
  finding.evidence.push_back({"recorded", steps, "steps"});
}

std::optional<Finding> evaluate(const RuleInput& input) {
  std::string settings, fixes;
  std::string_view first;
  Finding finding = make_finding(kDebugLeftOn, input, 0);
  for (const DebugSetting& it : kSettings) {
    Seen found = seen(input, it.fact);
    if (found.value.empty() || !is_on(it, found.value) || !applies(input, it.needs)) continue;
    if (first.empty()) first = it.fact;
    settings += fmt::format("{}{}={} ({})", settings.empty() ? "" : ", ", it.fact, found.value, it.cost);
    fixes += fmt::format("{}{}", fixes.empty() ? "" : ", ", it.fix);
    finding.evidence.push_back(std::move(found.evidence));
    finding.distorts.insert(finding.distorts.end(), it.distorts.begin(), it.distorts.end());
  }
  // Without a GPU what slows the host down slows the model's compute down: page faults came before a profiler
  // that was left on, and were its own.
  const bool is_on_cpu = !input.device && !input.device_hidden();
  if (is_on_cpu && std::ranges::find(finding.distorts, kHost) != finding.distorts.end())
    finding.distorts.push_back(kCompute);
  if (first.empty()) return std::nullopt;
  finding.title = "Debugging left on: " + settings;
  finding.fix.change = NamedChange{std::string(first), "off"};
  finding.fix.summary = sentence(fixes);
  finding.ceiling_speedup = upper_bound(input, first == "CUDA_LAUNCH_BLOCKING");
  if (finding.ceiling_speedup) {
    finding.lost_share = 1 - 1 / *finding.ceiling_speedup;
    finding.title += fmt::format(", the GPU idles up to {:.0f}% of each step", 100 * finding.lost_share);
    finding.severity = make_finding(kDebugLeftOn, input, finding.lost_share).severity;
  }
  add_sizes(finding, input);
  return finding;
}

}  // namespace

const Rule kDebugLeftOn{
    "debug-left-on",
    "A setting that is meant for debugging slows the run: `CUDA_LAUNCH_BLOCKING`, autograd's anomaly mode, "
    "a running profiler, deterministic algorithms, Keras's `run_eagerly=True`, "
    "`tf.config.run_functions_eagerly(True)`, `TORCH_SHOW_CPP_STACKTRACES`, "
    "`TORCH_DISTRIBUTED_DEBUG=DETAIL`, `NCCL_DEBUG=TRACE`, Python's development mode or tracemalloc.",
    "The value of the environment variable, or what PyTorch or TensorFlow reports while it trains; anomaly "
    "mode "
    "around a part of the step also by the stacks that it formats. A single "
    "recording does not show what the setting costs: findings about the time that it lengthens, such as "
    "`sync-per-step` and `host-work`, come after it. Only `CUDA_LAUNCH_BLOCKING` gets an upper bound: the "
    "time that the GPU idles.",
    "Unset the variable, or switch the debugging feature off.",
    {},
    evaluate,
    attribute::CategorySet(attribute::Bottleneck::Host) |
        attribute::CategorySet{attribute::Category::Compute},
    true};

}  // namespace gpuwatch::advise
