// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/location.h"
#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

extern const Rule kLaunchBound;

namespace {

using attribute::Category;

constexpr double kLeastShare = 0.15;
constexpr double kLeastLaunches = 20;
constexpr double kDispatchNs = 100e3;
constexpr double kRecurs = 0.5;
constexpr double kGraphKernelGapNs = 1e3;

constexpr Threshold kThresholds[] = {
    {"device idle between launches that follow each other", kLeastShare, "of the step",
     "XProf's upper band for kernel launches (3 and 15 %)"},
    {"launches", kLeastLaunches, "a step", "a graph of fewer gains nothing"},
    {"host time between two launches that a graph removes", kDispatchNs, "ns",
     "a framework's dispatch takes 5 to 50 us; longer is the script's own work (`host-work`), which a graph "
     "keeps"},
    {"longer host time that is the script's", kRecurs, "of the steps",
     "what it does before a launch it does there in each step; a thread that lost its core is as late "
     "anywhere"},
    {"gap between kernels of a graph", kGraphKernelGapNs, "ns",
     "about 1 us measured on recent devices; the interval begins with none"},
    kLeastGain,
};

// Two things are not known: how closely a graph's kernels follow each other on this device, and what became
// of the host in a long gap that does not recur. The interval spans both.
struct Captured {
  explicit Captured(const RuleInput& input)
      : fastest(assumed_streams(input)), expected(fastest), slowest(fastest) {
    predict::capture_launches(fastest, kDispatchNs, kRecurs, 0);
    predict::capture_launches(expected, kDispatchNs, kRecurs, kGraphKernelGapNs);
    predict::capture_launches(slowest, kDispatchNs, 0, kGraphKernelGapNs);
  }

  std::optional<predict::Prediction> prediction(const RuleInput& input) const {
    auto result = stream_prediction(input, expected);
    const auto low = stream_prediction(input, fastest), high = stream_prediction(input, slowest);
    if (!result || !low || !high) return std::nullopt;
    result->value.low = std::min(result->value.low, low->value.low);
    result->value.high = std::max(result->value.high, high->value.high);
    result->speedup.high = std::max(result->speedup.high, low->speedup.high);
    result->speedup.low = std::min(result->speedup.low, high->speedup.low);
    result->assumptions.push_back(
        "all launches of a step fit into a graph; its kernels follow each other by 1 us, at best at once");
    const double kept_ms = predict::replay(slowest).step_ms - predict::replay(expected).step_ms;
    if (kept_ms > kWorthSaying * result->value.expected)
      result->assumptions.push_back(
          fmt::format("{:.3g} ms a step in which the host was late, at no launch regularly, go with the "
                      "launches; the high end keeps them",
                      kept_ms));
    return result;
  }

  static constexpr double kWorthSaying = 0.02;
  predict::StreamRecording fastest, expected, slowest;
};

std::optional<Finding> evaluate(const RuleInput& input) {
  double lost = input.rank.share(Category::LaunchApi) + input.rank.share(Category::LaunchDispatch) +
                input.rank.share(Category::DeviceLaunchGap);
  if (!input.streams || lost < kLeastShare) return std::nullopt;
  double launches = 0;
  std::vector<double> kernels_ns;
  const predict::HostEvent* shown = nullptr;
  for (const predict::HostEvent& event : input.streams->events) {
    if (event.op_class != trace::OpClass::Launch) continue;
    ++launches;
    if (!shown) shown = &event;
    for (uint32_t i = 0; i < event.op_count; ++i)
      kernels_ns.push_back(input.streams->ops[event.first_op + i].duration_ns);
  }
  double steps = double(input.rank.steps.size());
  if (kernels_ns.empty() || launches / steps < kLeastLaunches) return std::nullopt;
  auto middle = kernels_ns.begin() + long(kernels_ns.size() / 2);
  std::nth_element(kernels_ns.begin(), middle, kernels_ns.end());

  const Captured captured(input);
  double now = predict::replay(assumed_streams(input)).step_ms;
  if (now < predict::replay(captured.expected).step_ms * kLeastSpeedup) return std::nullopt;

  Finding finding = make_finding(kLaunchBound, input, lost);
  finding.title = "The host cannot launch kernels as fast as the device runs them";
  finding.evidence = {{"launches", launches / steps, "a step"},
                      {"median kernel", *middle / 1e3, "us"},
                      share_evidence(input, Category::LaunchApi),
                      share_evidence(input, Category::LaunchDispatch),
                      share_evidence(input, Category::DeviceLaunchGap)};
  bool is_torch = input.process.facts.contains("torch");
  finding.fix.setting = is_torch ? "torch.compile" : "CUDA graph";
  finding.fix.value = is_torch ? "mode=\"reduce-overhead\"" : "";
  finding.fix.summary = is_torch
                            ? "torch.compile(model, mode=\"reduce-overhead\") or a CUDA graph of the step"
                            : "capture the step's launches in a CUDA graph and launch that";
  finding.fix.snippet =
      is_torch ? "model = torch.compile(model, mode=\"reduce-overhead\")"
               : "cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal); /* the launches */ "
                 "cudaStreamEndCapture(stream, &graph);";
  finding.fix.location = call_location(input.run, input.process, shown->thread, shown->call);
  finding.prediction = captured.prediction(input);
  if (!finding.prediction) finding.ceiling_speedup = 1 / (1 - std::min(lost, 0.99));
  return finding;
}

}  // namespace

const Rule kLaunchBound{
    "launch-bound",
    "The host cannot launch kernels as fast as the device runs them: many short kernels, one launch each.",
    "Idle gaps that end with a launch, launches that follow each other within a framework's dispatch time. "
    "No "
    "launches in the gap is the script's own work; a queue drained by a synchronisation is `sync-per-step`.",
    "`torch.compile(mode=\"reduce-overhead\")`, a CUDA graph, or fused and foreach optimizers.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
