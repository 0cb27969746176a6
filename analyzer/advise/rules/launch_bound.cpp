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
constexpr double kGraphKernelGapNs = 1e3;

constexpr Threshold kThresholds[] = {
    {"device idle between launches that follow each other", kLeastShare, "of the step",
     "XProf's upper band for kernel launches (3 and 15 %)"},
    {"launches", kLeastLaunches, "a step", "a graph of fewer gains nothing"},
    {"host time between two launches that a graph removes", kDispatchNs, "ns",
     "a framework's dispatch takes 5 to 50 us; longer is the script's own work (`host-work`), which a graph "
     "keeps"},
    {"gap between kernels of a graph", kGraphKernelGapNs, "ns", "about 1 us measured on recent devices"},
    kLeastGain,
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

  predict::StreamRecording changed = assumed_streams(input);
  predict::capture_launches(changed, kDispatchNs, kGraphKernelGapNs);
  double now = predict::replay(assumed_streams(input)).step_ms;
  if (now < predict::replay(changed).step_ms * kLeastSpeedup) return std::nullopt;

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
  finding.prediction = stream_prediction(input, changed);
  if (finding.prediction)
    finding.prediction->assumptions.push_back(
        "all launches of a step fit into a graph; its kernels follow each other by 1 us");
  else
    finding.ceiling_speedup = 1 / (1 - std::min(lost, 0.99));
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
