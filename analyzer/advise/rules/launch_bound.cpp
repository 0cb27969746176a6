// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/captured_step.h"
#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/graph_waits.h"
#include "analyzer/advise/host_gaps.h"
#include "analyzer/advise/launch_sources.h"
#include "analyzer/advise/loader_words.h"
#include "analyzer/advise/location.h"
#include "analyzer/advise/merged_source.h"
#include "analyzer/advise/passes.h"
#include "analyzer/advise/remedy_words.h"
#include "analyzer/advise/rule.h"
#include "analyzer/advise/short_operations.h"
#include "analyzer/advise/sync_places.h"
#include "analyzer/attribute/device_work.h"
#include "analyzer/io/printable.h"
#include "analyzer/model/quantile.h"

namespace gpuwatch::advise {

extern const Rule kLaunchBound, kSyncPerStep;

namespace {

using attribute::Category;

constexpr double kLeastShare = 0.05;
constexpr double kLeastLaunches = 4;
constexpr double kMeasuredDispatchNs = 100e3;

constexpr Threshold kThresholds[] = {
    {"GPU idle while the host launches kernels", kLeastShare, "of the step",
     "between XProf's bands for kernel launches (3% and 15%)"},
    {"kernel launches", kLeastLaunches, "a step", "launching a CUDA graph takes as long as two or three"},
    {"host time before a launch, against the median of all", kStandsOut, "times",
     "longer is the script's own work (`host-work`), which a graph keeps"},
    {"host time before a launch that is never the script's", kShortOwnWorkNs, "ns",
     "framework overhead is 5 to 50 us a launch"},
    {"median host time before a launch, for a prediction of torch.compile: at most", kMeasuredDispatchNs,
     "ns", "no model with more (hooks, FSDP, deep module trees) was measured; beyond it, an upper bound"},
    {"longer host time that is the script's own work", kRecurs, "of the steps",
     "the script's work recurs before the same launch in each step; losing the CPU core delays any launch"},
    {"gap between kernels of a CUDA graph", kGraphKernelGapNs, "ns",
     "about 1 us measured on recent GPUs; the interval's low end assumes none"},
    {"host overhead left by torch.compile, fixed part", kCompiledLaunches, "launches a step",
     "measured with six models and PyTorch 2.13"},
    {"host overhead left by torch.compile, growing part", kCompiledShare, "of the launch time",
     "same measurement; the interval spans 0.5x to 1.5x the sum of both parts"},
    {"tensors that one launch of a fused or foreach operation takes", kTensorsALaunch, "tensors",
     "30 to 110 in PyTorch; what remains of the launches of a loop over parameters or samples"},
    {"waits for the GPU, with which `sync-per-step` comes first", kWaitsLikeBlocking, "of the launches",
     "then the queue is empty at each launch because of them"},
    {"steps in which the host waits for the GPU between launches, for an upper bound only", kRecurs,
     "of the steps", "no CUDA graph holds a wait; rarer ones can stay outside"},
    {"launches on either side of such a wait", kLeastGraphPart, "of the step's launches",
     "fewer, but not the optimizer's, can stay outside of the graph"},
    {"launches on either side of such a wait, at least", kLeastGraphLaunches, "a step",
     "launching a CUDA graph takes as long as two or three"},
    kWidestPrediction,
    kLeastGain,
    kPythonShare,
    kOwnShare,
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

// Not as an upper bound.
bool is_given(const std::optional<predict::Prediction>& prediction) {
  return prediction && prediction->value.high - prediction->value.low <=
                           kWidestPrediction.value * prediction->value.expected;
}

// One bound in a line: next to the compiler's, a graph's would be a second one.
void name_compiler(Finding& finding, const std::optional<predict::Prediction>& by_graph) {
  finding.fix.change =
      StreamChange{StreamEdit::kCaptureLaunches, "torch.compile", "mode=\"reduce-overhead\""};
  finding.fix.summary = "Use torch.compile(model, mode=\"reduce-overhead\")";
  if (by_graph) finding.fix.summary += ", or capture the whole step in a CUDA graph";
  if (by_graph && is_given(finding.prediction))
    finding.fix.summary += fmt::format(" for up to {:.1f}x", by_graph->speedup.high);
  else if (by_graph)
    finding.fix.summary += ", which may gain more";
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

// PyTorch's own, by their files in torch/optim.
bool can_be_fused(const std::string& file) {
  return std::ranges::any_of(
      std::initializer_list<const char*>{"/adam.py", "/adamw.py", "/sgd.py", "/adagrad.py"},
      [&](const char* name) { return file.ends_with(name); });
}

void name_optimizer(Finding& finding, const LaunchSource& source) {
  const std::string& file = source.function.file;
  const bool is_torchs = file.empty() || file.find("/torch/optim/") != std::string::npos;
  if (is_torchs) {
    const char* setting = file.empty() || can_be_fused(file) ? "fused=True" : "foreach=True";
    finding.fix.change = StreamChange{StreamEdit::kCaptureLaunches, "optimizer", setting};
    finding.fix.summary =
        fmt::format("Set {} in the optimizer: one launch for many parameters in place of {:.0f} a step",
                    setting, source.a_step);
    return;
  }
  const std::string function = io::printable(source.function.function);
  finding.fix.change = StreamChange{StreamEdit::kCaptureLaunches, "optimizer", "foreach"};
  finding.fix.summary = fmt::format(
      "Write {} with torch._foreach_ functions, which take all parameters at once, or use an optimizer that "
      "does (fused=True)",
      function);
}

std::string source_words(const LaunchSource& source) {
  const std::string& function = source.function.function;
  if (source.is_optimizer) return "the optimizer";
  return function.empty() || function.front() == '<' ? "the script" : io::printable(function) + "()";
}

void name_own_code(Finding& finding, const RuleInput& input, const LaunchSource& source,
                   const GraphWaits& waits) {
  finding.fix.change = StreamChange{StreamEdit::kMergeOwnLaunches, "operations", "fewer"};
  finding.fix.summary = fmt::format(
      "Launch less in {}: torch._foreach_ functions for a loop over tensors, one operation on the batch for "
      "a "
      "loop over samples",
      source_words(source));
  if (!places_after(input, waits.in_step, is_one_of(source.members)).empty())
    finding.fix.summary += "; its waits for the GPU go with it";
}

// Each pass launches as much for one sample as for all of them.
void name_passes(Finding& finding, const RuleInput& input, const LaunchSource& source, double passes) {
  finding.fix.change = StreamChange{StreamEdit::kMergeOwnLaunches, "operations", "fewer"};
  finding.fix.summary = fmt::format(
      "Run the {:.0f} passes of a step in {} as one over all samples (torch.func.vmap, where the gradients "
      "of "
      "each are needed)",
      passes, source_words(source));
  finding.title += fmt::format(", in {:.0f} passes forward and backward", passes);
  finding.evidence.insert(finding.evidence.begin() + 1, {"passes forward and backward", passes, "a step"});
  finding.fix.location = source.line.file.empty() ? "" : source.line.location();
  finding.ceiling_speedup = speedup_in_one_pass(input, passes);
}

void name_source(Finding& finding, const RuleInput& input, const Merged& merged,
                 const std::optional<predict::Prediction>& prediction, const GraphWaits& waits) {
  const LaunchSource& source = merged.source();
  if (source.is_optimizer)
    name_optimizer(finding, source);
  else
    name_own_code(finding, input, source, waits);
  finding.title += fmt::format(", {:.0f} of them in {}", source.a_step, source_words(source));
  finding.fix.location = source.line.file.empty() ? "" : source.line.location();
  finding.evidence.insert(finding.evidence.begin() + 1, {"of them there", source.a_step, "a step"});
  finding.prediction = prediction;
  if (!prediction) {
    finding.ceiling_speedup = merged.bound();
    return;
  }
  finding.timeline = std::make_shared<const predict::StreamReplayInput>(merged.expected());
  finding.prediction->assumptions.push_back(
      fmt::format("one launch takes {:.0f} tensors, and the kernels take as long as before (at best no time)",
                  kTensorsALaunch));
}

// A step of CUDA graphs has few launches to save: what the host does for each is the same for any batch.
Finding of_graphs(const RuleInput& input, const HostGaps& gaps, double lost) {
  Finding finding = make_finding(kLaunchBound, input, lost);
  finding.title = fmt::format(
      "Launch-bound: the GPU idles {:.0f}% of each step between CUDA graphs, while the host prepares the "
      "next",
      100 * lost);
  finding.evidence = {{"kernel launches outside of graphs", gaps.launches_a_step(), "a step"},
                      share_evidence(input, Category::LaunchApi),
                      share_evidence(input, Category::LaunchDispatch),
                      share_evidence(input, Category::DeviceLaunchGap)};
  const model::Loader* loader = input.configured_loader();
  const double batch = loader && loader->batch_size > 0 ? loader->batch_size : 0;
  finding.fix.change = StreamChange{StreamEdit::kScaleBatch, "batch_size",
                                    batch > 0 ? fmt::format("{:.0f}", 2 * batch) : "x2"};
  finding.fix.summary = batch > 0 ? fmt::format("Set batch_size={:.0f}", 2 * batch) : "Use a larger batch";
  finding.fix.summary += " (the host's work for a CUDA graph does not grow) and retune the learning rate";
  if (gaps.launches_a_step() >= kFewLaunches && speaks_torch(input.process))
    finding.fix.summary += ", or use a fused optimizer (fused=True)";
  if (loader) finding.fix.location = batch_size_location(*loader);
  finding.is_conditional = true;
  finding.ceiling_speedup = ceiling_without(input, lost);
  return finding;
}

// A graph cannot hold the waits that the prediction is made without: that is an upper bound.
void bound_without_waits(Finding& finding, const RuleInput& input) {
  finding.ceiling_speedup =
      finding.prediction ? finding.prediction->speedup.high
                         : ceiling_without(input, finding.lost_share + input.rank.share(Category::Sync));
  finding.prediction.reset();
}

// No replay applies a named change: the order of findings (ranking.cpp) puts the one that ends the waits
// first, and on top of that the graph is predicted.
void name_waits(Finding& finding, const RuleInput& input, const std::vector<SyncPlace>& waits) {
  double times = 0;
  for (const SyncPlace& place : waits) times += double(place.times);
  finding.evidence.insert(finding.evidence.begin() + 1, {"waits for the GPU between them",
                                                         times / double(input.rank.steps.size()), "a step"});
  finding.fix.change = NamedChange{setting_name(finding.fix.change), setting_value(finding.fix.change)};
  finding.fix.summary +=
      fmt::format(", after the waits {} are gone: a graph cannot hold them", places_words(input, waits));
}

// Where the framework compiles the step, its kernels are others than the recorded ones: no replay of these.
void name_remedy(Finding& finding, const RuleInput& input, RemedyWords words, const GraphWaits& waits) {
  finding.fix.change =
      StreamChange{StreamEdit::kCaptureLaunches, std::move(words.setting), std::move(words.value)};
  finding.fix.summary = std::move(words.summary);
  finding.fix.snippet = std::move(words.snippet);
  finding.ceiling_speedup = ceiling_without(input, finding.lost_share);
  if (waits.in_step.empty()) return;
  bound_without_waits(finding, input);
  name_waits(finding, input, waits.in_step);
}

// What a graph is known to gain, against which fewer launches of one source are: of a bound half of the time.
double known_speedup(const std::optional<predict::Prediction>& prediction, bool is_bound) {
  const double expected = prediction ? prediction->speedup.expected : 1;
  return is_bound ? 2 * expected / (1 + expected) : expected;
}

void predict_gain(Finding& finding, const RuleInput& input, const HostGaps& gaps,
                  const std::vector<LaunchSource>& sources, const GraphWaits& waits) {
  const bool is_torch = speaks_torch(input.process);
  const double passes = passes_a_step(input);
  const LaunchSource* of_each_pass = passes > 1 ? source_of_passes(sources, gaps.launches_a_step()) : nullptr;
  if (of_each_pass) return name_passes(finding, input, *of_each_pass, passes);
  const CapturedStep graph(input, gaps, waits.in_step), compiler(input, gaps, waits.in_model, sources);
  const bool is_measured = !is_torch || gaps.median_dispatch_ns() <= kMeasuredDispatchNs;
  const auto by_graph = is_measured ? graph.prediction() : std::nullopt;
  const auto by_compiler = is_torch && is_measured && !gaps.has_graphs() && compiler.is_worth_it()
                               ? compiler.prediction()
                               : std::nullopt;
  // Name torch.compile only if it certainly gains, or if no graph can be predicted.
  const bool names_compiler =
      by_compiler ? by_compiler->speedup.low >= 1 : is_torch && !by_graph && !gaps.has_graphs();
  const std::vector<SyncPlace>& in_the_way = names_compiler ? waits.in_model : waits.in_step;
  // What a source's launches cost does not show where the host waits for each of them.
  const bool is_hidden = !in_the_way.empty() && waits_like_blocking(input);
  const auto merged = is_hidden ? std::nullopt : best_merged(input, gaps, sources);
  const auto by_source = merged ? merged->prediction() : std::nullopt;
  const double compiled = names_compiler ? known_speedup(by_compiler, !in_the_way.empty()) : 1;
  if (merged && merged->speedup() >= compiled && (!by_source || by_source->speedup.low >= 1))
    return name_source(finding, input, *merged, by_source, waits);
  finding.prediction = names_compiler ? by_compiler : by_graph;
  if (!in_the_way.empty()) bound_without_waits(finding, input);
  if (names_compiler)
    name_compiler(finding, waits.in_step.empty() ? by_graph : std::nullopt);
  else
    name_graph(finding, is_torch);
  if (!in_the_way.empty()) return name_waits(finding, input, in_the_way);
  if (!finding.prediction)
    finding.ceiling_speedup = ceiling_without(input, finding.lost_share);
  else
    finding.timeline = std::make_shared<const predict::StreamReplayInput>(names_compiler ? compiler.expected()
                                                                                         : graph.expected());
}

// Whoever times each layer waits so often that the host never gets ahead. What its launches cost shows
// without the waits: of 123 and 245 launches a step, the job was 2.2 times as fast without the waits.
bool is_held_back(const RuleInput& input) {
  if (!waits_like_blocking(input)) return false;
  const auto waits = kSyncPerStep.evaluate(input);
  return waits && waits->prediction && !waits->is_conditional;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  const bool is_on_cpu = !input.device && !input.device_hidden();
  if (is_on_cpu && !input.rank.steps.empty()) return short_operations(kLaunchBound, input);
  if (!input.streams) return std::nullopt;
  const HostGaps gaps(input);
  const double lost = gaps.launch_share();
  if (lost < kLeastShare) return std::nullopt;
  if (gaps.launches_graphs()) return of_graphs(input, gaps, lost);
  const Launches launches = launches_of(input);
  if (launches.a_step < kLeastLaunches) return std::nullopt;
  const std::vector<LaunchSource> sources =
      speaks_torch(input.process) ? launch_sources(input) : std::vector<LaunchSource>();
  const GraphWaits waits = graph_waits(input, sources);
  if (!CapturedStep(input, gaps, waits.in_step).is_worth_it()) return std::nullopt;
  if (waits.in_step.empty() && is_held_back(input)) return std::nullopt;

  Finding finding = make_finding(kLaunchBound, input, lost);
  finding.title =
      fmt::format("Launch-bound: the GPU idles {:.0f}% of each step while the host launches {:.0f} kernels",
                  100 * lost, launches.a_step);
  finding.evidence = {{"kernel launches", launches.a_step, "a step"},
                      {"median kernel duration", launches.median_kernel_ns / 1e3, "us"},
                      {"median host time before a launch", gaps.median_dispatch_ns() / 1e3, "us"},
                      share_evidence(input, Category::LaunchApi),
                      share_evidence(input, Category::LaunchDispatch),
                      share_evidence(input, Category::DeviceLaunchGap)};
  if (const auto queue = attribute::launch_queue(input.run, input.rank))
    finding.evidence.push_back(
        {"kernels that the GPU was waiting for", 100 * queue->empty_share, "% of launches"});
  finding.fix.location =
      call_location(input.run, input.process, launches.first->thread, launches.first->call);
  if (auto words = remedy_words(input.process, Remedy::kFewerLaunches))
    name_remedy(finding, input, std::move(*words), waits);
  else
    predict_gain(finding, input, gaps, sources, waits);
  return finding;
}

}  // namespace

const Rule kLaunchBound{
    "launch-bound",
    "The host launches kernels more slowly than the GPU runs them: many short kernels, one launch each.",
    "The GPU idles until the next launch, and the time before each of them is about the same: framework "
    "overhead, short or long (hooks, sharding, deep module trees). A place that takes longer than the others "
    "is `host-work`, a launch queue that a synchronization point drained is `sync-per-step`. A graph cannot "
    "hold a wait for the GPU, even one that costs no time: where the host waits between the launches of most "
    "steps, the gain of a graph is an upper bound, without these waits. On a CPU job: "
    "stack samples show the training thread in the framework's Python, or in lines of one function of the "
    "script in the model, and it moved on within 25 us three times.",
    "`torch.compile(mode=\"reduce-overhead\")`, whose own overhead is part of the prediction. Where that "
    "overhead is as long as the launches (small models), or outside PyTorch: a CUDA graph of the whole step. "
    "Where the optimizer or a function of the script (a loop over parameters, over samples) launches more "
    "than "
    "the compiler would take away: `fused=True`, `torch._foreach_` functions, one operation on the batch. "
    "Where a step runs forward and backward for each sample, and works on the gradients of each: all of them "
    "at once "
    "(`torch.func.vmap`). "
    "In TensorFlow `tf.function(jit_compile=True)`, in JAX one `jax.jit` for the whole step; their gain is "
    "an upper bound. "
    "Fused and foreach optimizers launch fewer kernels. A step that already runs as CUDA graphs needs a "
    "larger batch. On a CPU job: a larger batch, a fused optimizer, `tf.function`, `jax.jit`; of the "
    "script's "
    "own lines, one operation on whole tensors for a loop over their parts.",
    kThresholds,
    evaluate,
    {attribute::Category::LaunchApi, attribute::Category::LaunchDispatch,
     attribute::Category::DeviceLaunchGap, attribute::Category::HostCompute, attribute::Category::Gil}};

}  // namespace gpuwatch::advise
