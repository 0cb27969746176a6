// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/location.h"
#include "analyzer/advise/recurrence.h"
#include "analyzer/advise/remedy_words.h"
#include "analyzer/advise/steady_time.h"
#include "analyzer/model/compiler.h"
#include "analyzer/model/quantile.h"

namespace gpuwatch::advise {

extern const Rule kRecompilation;

namespace {

using model::HostCall;
using model::Ns;
using trace::OpClass;

constexpr double kLeastShare = 0.05;
constexpr size_t kLeastSpells = 3;
constexpr size_t kLeastTracedAgain = 5;
constexpr size_t kMostLookedAt = 64;  // one that has a place is enough

constexpr Threshold kThresholds[] = {
    {"time for compiling and loading code", kLeastShare, "of the step", "XProf's lower band"},
    kGoesOn,
    {"or times that stack samples of the training thread enter a compiler", double(kLeastSpells),
     "in the second half of the run", "fewer may be one long compilation"},
    {"or compilations after which JAX traces again what it had traced before", double(kLeastTracedAgain),
     "in the second half of the run",
     "a model's evaluation, and a last, short batch of both, are traced again, too"},
};

enum class Kind { kNone, kCode, kGraph };

// New parameters for the nodes of a graph that stays: XLA sets them before each launch (26 calls a step of
// JAX on an H200, 0.1 ms).
bool updates_graph(const RuleInput& input, const HostCall& call) {
  return input.run.operations[call.operation].name.find("NodeSet") != std::string::npos;
}

Kind kind_of(const RuleInput& input, const model::Thread& thread, const HostCall& call) {
  if (call.op_class == OpClass::ModuleLoad || model::is_in_compiler(input.run, thread, call))
    return Kind::kCode;
  if (call.op_class == OpClass::GraphBuild && updates_graph(input, call)) return Kind::kNone;
  return call.op_class == OpClass::Capture || call.op_class == OpClass::GraphBuild ? Kind::kGraph
                                                                                   : Kind::kNone;
}

// After these the thread may have begun to compile: they are training.
bool is_of_training(OpClass op_class) {
  return enqueues(op_class) || takes_batch(op_class) || op_class == OpClass::Sync ||
         op_class == OpClass::BatchReceived;
}

struct Compilations {
  std::vector<model::TimeSpan> spans;
  std::vector<std::pair<uint32_t, uint32_t>> calls;  // thread and call of some of them
  size_t code = 0, graphs = 0;
  Ns longest = 0;
};

// Code is compiled before it is loaded: from the thread's last call of training to the end of the load.
Compilations compilations_of(const RuleInput& input, model::TimeSpan steps) {
  Compilations found;
  for (uint32_t t = 0; t < input.process.threads.size(); ++t) {
    const model::Thread& thread = input.process.threads[t];
    const bool trains =
        t == input.process.training_thread ||
        std::ranges::any_of(thread.calls, [](const HostCall& c) { return enqueues(c.op_class); });
    Ns begin = 0;
    for (uint32_t c = 0; trains && c < thread.calls.size(); ++c) {
      const HostCall& call = thread.calls[c];
      if (is_of_training(call.op_class)) begin = call.end;
      if (call.begin < steps.begin || call.begin >= steps.end) continue;
      const Kind kind = kind_of(input, thread, call);
      if (kind == Kind::kNone) continue;
      ++(kind == Kind::kCode ? found.code : found.graphs);
      // Launches while a graph is captured run nothing: all between the calls of a capture is its cost.
      const Ns from = begin > steps.begin && begin <= call.begin ? begin : call.begin;
      found.spans.push_back({from, call.end});
      found.longest = std::max(found.longest, call.end - from);
      if (found.calls.size() < kMostLookedAt) found.calls.emplace_back(t, c);
    }
  }
  return found;
}

// How much longer steps with a compilation are than those without, in total; of the recorded wall time. All
// of it where every step has one: then nothing says more than the spans do.
double excess_share(const RuleInput& input, const std::vector<model::TimeSpan>& spans) {
  std::vector<Ns> without, ends;
  for (const model::TimeSpan& span : spans) ends.push_back(span.end);
  std::ranges::sort(ends);
  double with_ns = 0;
  size_t with = 0;
  for (const attribute::StepAttribution& step : input.rank.steps) {
    const Ns length = step.step.end - step.step.begin;
    const auto next = std::ranges::upper_bound(ends, step.step.begin);
    if (next == ends.end() || *next > step.step.end) {
      without.push_back(length);
      continue;
    }
    ++with;
    with_ns += double(length);
  }
  if (without.empty() || input.rank.wall_ns <= 0) return 1;
  const double usual = double(model::median(std::move(without)));
  return std::max(0.0, with_ns - double(with) * usual) / double(input.rank.wall_ns);
}

void name_fix(Finding& finding, const RuleInput& input, bool is_graph) {
  const bool is_torch = speaks_torch(input.process);
  if (auto words = remedy_words(input.process, Remedy::kCompileOnce)) {
    finding.fix.change = NamedChange{std::move(words->setting), std::move(words->value)};
    finding.fix.summary = std::move(words->summary);
    finding.fix.snippet = std::move(words->snippet);
  } else if (is_graph) {
    finding.fix.change = NamedChange{"CUDA graph", "captured once"};
    finding.fix.summary =
        "Capture each CUDA graph once and replay it: use batches of one shape (drop_last=True, padding to a "
        "few lengths)";
  } else if (is_torch) {
    finding.fix.change = NamedChange{"dynamic shapes", "True"};
    finding.fix.summary =
        "Use batches of one shape (drop_last=True, padding to a few lengths) or "
        "torch.compile(dynamic=True); TORCH_LOGS=recompiles says which guard failed";
  } else {
    finding.fix.change = NamedChange{"compiled code", "kept"};
    finding.fix.summary =
        "Load and compile code once before the loop, and use batches of one shape so that it stays valid";
  }
}

// Deep in the compiler a stack does not reach the user's code: then another call's may.
std::string location_of(const RuleInput& input, const Compilations& found) {
  for (const auto& [thread, call] : found.calls) {
    const model::Thread& owner = input.process.threads[thread];
    if (const auto line = model::compiled_line_of(input.run, owner, owner.calls[call]))
      return line->location();
    if (model::is_in_compiler(input.run, owner, owner.calls[call])) continue;
    if (std::string place = call_location(input.run, input.process, thread, call); !place.empty())
      return place;
  }
  return "";
}

std::optional<Finding> by_calls(const RuleInput& input) {
  if (input.rank.steps.empty()) return std::nullopt;
  const model::TimeSpan steps{input.rank.steps.front().step.begin, input.rank.steps.back().step.end};
  const Compilations found = compilations_of(input, steps);
  const Recurrence recurrence = recurrence_of(input, found.spans);
  if (!recurrence.goes_on() || recurrence.idle_share < kLeastShare) return std::nullopt;
  const double lost = std::min(recurrence.idle_share, excess_share(input, found.spans));
  if (lost < kLeastShare) return std::nullopt;

  const bool is_graph = found.graphs > found.code;
  Finding finding = make_finding(kRecompilation, input, lost);
  finding.title =
      fmt::format("Recompilation: {} in {} of {} steps, {}",
                  is_graph ? "CUDA graphs are captured again" : "code is compiled or loaded again",
                  recurrence.steps, input.rank.steps.size(), stall_words(input, lost));
  finding.evidence = {{"time for compiling and loading code", 100 * lost, "% of the step"},
                      {"steps with a compilation", double(recurrence.steps), "steps"},
                      {"module loads and compiler calls", double(found.code), "in the recorded steps"},
                      {"graph captures and instantiations", double(found.graphs), "in the recorded steps"},
                      {"longest", double(found.longest) / 1e6, "ms"}};
  name_fix(finding, input, is_graph);
  finding.fix.location = location_of(input, found);
  // Of the recorded step: of this share the GPU idled, whatever other findings would leave of it.
  finding.ceiling_speedup = 1 / (1 - std::min(lost, 0.99));
  return finding;
}

void set_verdict(Finding& finding, double share) {
  finding.verdict = Verdict{
      "host-bound", fmt::format("HOST-BOUND: code is compiled again {:.0f}% of the time", 100 * share),
      *finding.ceiling_speedup, attribute::Bottleneck::Host};
}

// A compiler that makes no call that is recorded: that of JAX and of TensorFlow, and torch.compile without a
// GPU. Where a GPU computes meanwhile, a sample does not tell what compiling costs.
std::optional<Finding> by_samples(const RuleInput& input) {
  if (input.device || input.device_hidden()) return std::nullopt;
  const auto seen = model::compiler_samples(input.run, input.process, later_time(input));
  if (!seen || seen->share.low < kLeastShare) return std::nullopt;
  if (seen->spells < kLeastSpells && seen->traced_again < kLeastTracedAgain) return std::nullopt;
  Finding finding = make_finding(kRecompilation, input, seen->share.share);
  finding.bottleneck = attribute::Bottleneck::Host;
  finding.title = fmt::format("Recompilation: code is compiled again and again, {:.0f}% of the time",
                              100 * seen->share.share);
  finding.evidence = {
      {"stack samples in a compiler", 100 * seen->share.share, "% in the second half of the run"},
      {"compilations seen to begin, at least", double(std::max(seen->spells, seen->traced_again)), ""}};
  name_fix(finding, input, false);
  if (!seen->line.file.empty()) finding.fix.location = seen->line.location();
  finding.ceiling_speedup = 1 / (1 - std::min(seen->share_at_most, 0.99));
  if (input.rank.steps.empty()) set_verdict(finding, seen->share.share);
  return finding;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  auto finding = by_calls(input);
  return finding ? finding : by_samples(input);
}

}  // namespace

const Rule kRecompilation{
    "recompilation",
    "Code is compiled or loaded, or CUDA graphs are captured, again and again during training: mostly "
    "because the shape of the batches changes.",
    "Module loads, graph captures, or calls below a compiler's Python frames (torch.compile, Triton) in "
    "several steps also of the second half of the run, with the time since the thread's last launch, copy, "
    "synchronization or batch, as far as the GPU idles and these steps are longer than the others. "
    "Without a GPU, stack samples of the training thread in a compiler (also that of JAX and TensorFlow), in "
    "the second half of the run. Compiling at the first steps is warm-up.",
    "Batches of one shape, `torch.compile(dynamic=True)`, graphs that are captured once for each shape.",
    kThresholds,
    evaluate,
    {attribute::Category::Compile, attribute::Category::HostCompute, attribute::Category::LaunchDispatch,
     attribute::Category::Compute},
    true};

}  // namespace gpuwatch::advise
