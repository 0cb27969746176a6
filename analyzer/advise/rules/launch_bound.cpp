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
// Host time of forward and backward compiled with mode="reduce-overhead" (guards, CUDA graph trees,
// gradients' accumulation), in mean launches of the same model before. PyTorch 2.13, the six models of
// tests/torch_cuda/programs/small_models.py with 37, 47, 131, 163, 196 and 361 launches a step, three times
// each, on a machine whose speed changed: 30 to 33, 29 to 52, 37 to 46, 54 to 68, 61 to 84 and 62 to 129,
// where these two make 36, 37, 50, 54, 59 and 84.
constexpr double kCompiledLaunches = 30, kCompiledShare = 0.15;
constexpr double kLeastOfKept = 0.5, kMostOfKept = 1.5;

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
    {"launches whose time a step compiled by PyTorch still takes", kCompiledLaunches, "a step",
     "measured with six models and PyTorch 2.13"},
    {"and of its launches' time", kCompiledShare, "of it",
     "likewise; half to one and a half times both together"},
    kLeastGain,
};

// What is not known, and the interval therefore spans: how closely a graph's kernels follow each other on
// this device, what became of the host in a long gap that does not recur, and how much time torch.compile
// itself takes.
class Captured {
 public:
  Captured(const RuleInput& input, bool by_compiler) : input_(input), by_compiler_(by_compiler) {}

  bool is_worth_it() const {
    return input_.assumed_step_ms >= predict::replay(expected()).step_ms * kLeastSpeedup;
  }

  std::optional<predict::Prediction> prediction() const {
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

 private:
  predict::StreamReplayInput expected() const { return captured(1, kRecurs, kGraphKernelGapNs); }

  predict::StreamReplayInput captured(double of_kept, double recurs, double gap_ns) const {
    predict::Capture capture{
        .longest_gap_ns = kDispatchNs, .recurring_share = recurs, .kernel_gap_ns = gap_ns};
    if (by_compiler_) {
      capture.with_optimizer = false;
      capture.kept_launches = kCompiledLaunches * of_kept;
      capture.kept_share = kCompiledShare * of_kept;
    }
    predict::StreamReplayInput changed = *input_.assumed_streams;
    predict::capture_launches(changed, capture);
    return changed;
  }

  const RuleInput& input_;
  const bool by_compiler_;
};

// The launches of the recorded steps, and how long their kernels took.
struct Launches {
  double a_step = 0;
  double median_kernel_ns = 0;
  const predict::HostEvent* first = nullptr;
};

Launches launches_of(const RuleInput& input) {
  Launches launches;
  std::vector<double> kernels_ns;
  for (const predict::HostEvent& event : input.streams->events) {
    if (event.op_class != trace::OpClass::Launch) continue;
    ++launches.a_step;
    if (!launches.first) launches.first = &event;
    for (uint32_t i = 0; i < event.op_count; ++i)
      kernels_ns.push_back(input.streams->ops[event.first_op + i].duration_ns);
  }
  if (kernels_ns.empty()) return {};
  launches.a_step /= double(input.rank.steps.size());
  auto middle = kernels_ns.begin() + long(kernels_ns.size() / 2);
  std::nth_element(kernels_ns.begin(), middle, kernels_ns.end());
  launches.median_kernel_ns = *middle;
  return launches;
}

void name_compiler(Finding& finding, const std::optional<predict::Prediction>& by_graph) {
  finding.fix.change =
      StreamChange{StreamEdit::kCaptureLaunches, "torch.compile", "mode=\"reduce-overhead\""};
  finding.fix.summary = "torch.compile(model, mode=\"reduce-overhead\")";
  if (by_graph)
    finding.fix.summary +=
        fmt::format("; up to {:.2g} times with a CUDA graph of the whole step", by_graph->speedup.high);
  finding.fix.snippet = "model = torch.compile(model, mode=\"reduce-overhead\")";
  if (!finding.prediction) return;
  finding.prediction->assumptions.push_back(fmt::format(
      "torch.compile keeps the optimizer's launches and takes as long itself as {:.0f} launches and {:.0f} % "
      "of "
      "the others did, {:.0f} to {:.0f} % of that; kernels stay as they are, what it fuses comes on top",
      kCompiledLaunches, 100 * kCompiledShare, 100 * kLeastOfKept, 100 * kMostOfKept));
}

void name_graph(Finding& finding, bool is_torch) {
  finding.fix.change = StreamChange{StreamEdit::kCaptureLaunches, "CUDA graph", ""};
  finding.fix.summary = is_torch
                            ? "a CUDA graph of the whole step (torch.cuda.graph, capturable=True optimizer)"
                            : "capture the step's launches in a CUDA graph and launch that";
  finding.fix.snippet =
      is_torch
          ? "with torch.cuda.graph(graph): loss = criterion(model(x), y); loss.backward(); optimizer.step()"
          : "cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal); /* the launches */ "
            "cudaStreamEndCapture(stream, &graph);";
  if (finding.prediction)
    finding.prediction->assumptions.push_back(
        "all launches of a step fit into a graph; its kernels follow each other by 1 us, at best at once");
}

std::optional<Finding> evaluate(const RuleInput& input) {
  const double lost = input.rank.share(Category::LaunchApi) + input.rank.share(Category::LaunchDispatch) +
                      input.rank.share(Category::DeviceLaunchGap);
  if (!input.streams || lost < kLeastShare) return std::nullopt;
  const Launches launches = launches_of(input);
  if (launches.a_step < kLeastLaunches) return std::nullopt;
  const Captured graph(input, false), compiler(input, true);
  if (!graph.is_worth_it()) return std::nullopt;

  Finding finding = make_finding(kLaunchBound, input, lost);
  finding.title = "The host cannot launch kernels as fast as the device runs them";
  finding.evidence = {{"launches", launches.a_step, "a step"},
                      {"median kernel", launches.median_kernel_ns / 1e3, "us"},
                      share_evidence(input, Category::LaunchApi),
                      share_evidence(input, Category::LaunchDispatch),
                      share_evidence(input, Category::DeviceLaunchGap)};
  finding.fix.location =
      call_location(input.run, input.process, launches.first->thread, launches.first->call);
  const bool is_torch = input.process.facts.contains("torch");
  const auto by_graph = graph.prediction();
  const auto by_compiler = is_torch && compiler.is_worth_it() ? compiler.prediction() : std::nullopt;
  // One that may as well be a loss is no answer where the graph is one.
  const bool names_compiler = by_compiler ? by_compiler->speedup.low >= 1 : is_torch && !by_graph;
  finding.prediction = names_compiler ? by_compiler : by_graph;
  if (names_compiler)
    name_compiler(finding, by_graph);
  else
    name_graph(finding, is_torch);
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
    "`torch.compile(mode=\"reduce-overhead\")`, whose own time for a step is part of the prediction; a CUDA "
    "graph "
    "of the whole step where that takes as long as the launches (small models), or outside PyTorch; fused "
    "and "
    "foreach optimizers.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
