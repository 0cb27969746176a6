// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/location.h"
#include "analyzer/advise/rule.h"
#include "analyzer/model/quantile.h"

namespace gpuwatch::advise {

extern const Rule kLaunchBound;

namespace {

using attribute::Category;

constexpr double kLeastShare = 0.15;
constexpr double kLeastLaunches = 20;
constexpr double kDispatchNs = 100e3;
constexpr double kRecurs = 0.5;
constexpr double kGraphKernelGapNs = 1e3;
// Host overhead of a step whose forward and backward are compiled with mode="reduce-overhead" (guards, CUDA
// graph trees, gradient accumulation), in mean launches of the same model before. Measured with PyTorch 2.13
// on the six models of tests/torch_cuda/programs/small_models.py with 37, 47, 131, 163, 196 and 361 launches
// a step, three times each, on a machine of varying speed: 30 to 33, 29 to 52, 37 to 46, 54 to 68, 61 to 84
// and 62 to 129 launches. These two constants give 36, 37, 50, 54, 59 and 84.
constexpr double kCompiledLaunches = 30, kCompiledShare = 0.15;
constexpr double kLeastOfKept = 0.5, kMostOfKept = 1.5;

constexpr Threshold kThresholds[] = {
    {"GPU idle while the host launches kernels", kLeastShare, "of the step",
     "XProf's upper band for kernel launches (3% and 15%)"},
    {"kernel launches", kLeastLaunches, "a step", "a CUDA graph of fewer gains nothing"},
    {"host time between two launches that a CUDA graph removes", kDispatchNs, "ns",
     "framework overhead is 5 to 50 us a launch; longer is the script's own work (`host-work`), which a "
     "graph keeps"},
    {"longer host time that is the script's own work", kRecurs, "of the steps",
     "the script's work recurs before the same launch in each step; losing the CPU core delays any launch"},
    {"gap between kernels of a CUDA graph", kGraphKernelGapNs, "ns",
     "about 1 us measured on recent GPUs; the interval's low end assumes none"},
    {"host overhead left by torch.compile, fixed part", kCompiledLaunches, "launches a step",
     "measured with six models and PyTorch 2.13"},
    {"host overhead left by torch.compile, growing part", kCompiledShare, "of the launch time",
     "same measurement; the interval spans 0.5x to 1.5x the sum of both parts"},
    kLeastGain,
};

// The replay of a step whose launches are captured in a CUDA graph. The interval spans what is not known: how
// closely the graph's kernels follow each other on this device, whether a long gap that does not recur
// remains, and the overhead of torch.compile.
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

// The kernel launches of the recorded steps, and how long their kernels took.
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
  launches.median_kernel_ns = model::median(std::move(kernels_ns));
  return launches;
}

void name_compiler(Finding& finding, const std::optional<predict::Prediction>& by_graph) {
  finding.fix.change =
      StreamChange{StreamEdit::kCaptureLaunches, "torch.compile", "mode=\"reduce-overhead\""};
  finding.fix.summary = "Use torch.compile(model, mode=\"reduce-overhead\")";
  if (by_graph)
    finding.fix.summary +=
        fmt::format(", or capture the whole step in a CUDA graph for up to {:.1f}x", by_graph->speedup.high);
  finding.fix.snippet = "model = torch.compile(model, mode=\"reduce-overhead\")";
  if (!finding.prediction) return;
  finding.prediction->assumptions.push_back(fmt::format(
      "torch.compile leaves the optimizer's launches unchanged, and its overhead a step equals {:.0f} "
      "launches plus {:.0f}% of the compiled launches' time (interval: {:.0f}% to {:.0f}% of that)",
      kCompiledLaunches, 100 * kCompiledShare, 100 * kLeastOfKept, 100 * kMostOfKept));
  finding.prediction->assumptions.emplace_back(
      "kernels take as long as before, so fused kernels would gain more");
}

void name_graph(Finding& finding, bool is_torch) {
  finding.fix.change = StreamChange{StreamEdit::kCaptureLaunches, "CUDA graph", ""};
  finding.fix.summary =
      is_torch ? "Capture the whole step in a CUDA graph (torch.cuda.graph, optimizer with capturable=True)"
               : "Capture the step's launches in a CUDA graph, and launch the graph";
  finding.fix.snippet =
      is_torch ? "graph = torch.cuda.CUDAGraph()  # after warm-up: with torch.cuda.graph(graph): loss = "
                 "criterion(model(x), y); loss.backward(); optimizer.step()"
               : "cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal); /* the launches */ "
                 "cudaStreamEndCapture(stream, &graph);";
  if (finding.prediction)
    finding.prediction->assumptions.emplace_back(
        "all launches of a step fit into one CUDA graph, whose kernels start 1 us apart (at best back to "
        "back)");
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
  finding.title =
      fmt::format("Launch-bound: the GPU idles {:.0f}% of each step while the host launches {:.0f} kernels",
                  100 * lost, launches.a_step);
  finding.evidence = {{"kernel launches", launches.a_step, "a step"},
                      {"median kernel duration", launches.median_kernel_ns / 1e3, "us"},
                      share_evidence(input, Category::LaunchApi),
                      share_evidence(input, Category::LaunchDispatch),
                      share_evidence(input, Category::DeviceLaunchGap)};
  finding.fix.location =
      call_location(input.run, input.process, launches.first->thread, launches.first->call);
  const bool is_torch = input.process.facts.contains("torch");
  const auto by_graph = graph.prediction();
  const auto by_compiler = is_torch && compiler.is_worth_it() ? compiler.prediction() : std::nullopt;
  // Name torch.compile only if it certainly gains, or if no graph can be predicted.
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
    "The host launches kernels more slowly than the GPU runs them: many short kernels, one launch each.",
    "The GPU idles until the next launch, and launches follow each other within the time of framework "
    "overhead. Idle gaps without launches are `host-work`, a launch queue that a synchronization point "
    "drained is `sync-per-step`.",
    "`torch.compile(mode=\"reduce-overhead\")`, whose own overhead is part of the prediction. Where that "
    "overhead is as long as the launches (small models), or outside PyTorch: a CUDA graph of the whole step. "
    "Fused and foreach optimizers launch fewer kernels.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
