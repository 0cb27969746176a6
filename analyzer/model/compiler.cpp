// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/compiler.h"

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "analyzer/model/training_stacks.h"

namespace gpuwatch::model {
namespace {

// Frames that are only there while the compiler runs: those of compiled code are in all its calls.
// A stack keeps its innermost frames only, so each part of the compiler has to be known.
constexpr std::string_view kCompilerFrames[] = {"torch/_dynamo/convert_frame.py",
                                                "torch/_dynamo/symbolic_convert.py",
                                                "torch/_dynamo/variables/",
                                                "torch/_functorch/_aot_autograd/graph_compile.py",
                                                "torch/_inductor/async_compile.py",
                                                "torch/_inductor/codegen/",
                                                "torch/_inductor/cpp_builder.py",
                                                "torch/_inductor/fx_passes/",
                                                "torch/_inductor/graph.py",
                                                "torch/_inductor/scheduler.py",
                                                "triton/compiler/compiler.py",
                                                "jax/_src/compiler.py",
                                                "jax/_src/interpreters/mlir.py",
                                                "tensorflow/python/framework/func_graph.py",
                                                "tensorflow/python/framework/op_def_library.py",
                                                "tensorflow/python/framework/auto_control_deps",
                                                "/__autograph_generated_file",
                                                "numba/core/compiler"};

// JAX traces in here before it compiles, and looks at the result after. That neither begins nor ends a
// compilation: one that took 5 s, for the last and short batch of an epoch, was counted as four.
constexpr std::string_view kTracingFiles[] = {"jax/_src/pjit.py", "jax/_src/interpreters/",
                                              "jax/_src/linear_util.py", "jax/_src/api_util.py"};

// Where XLA compiles what JAX traced before.
constexpr std::string_view kBackendFile = "jax/_src/compiler.py";

// JAX hands a compiled program to XLA. On the CPU the program may run in here: that is no part of compiling.
constexpr std::string_view kHandsOver = " ExecuteReplicated.__call__";

// TensorFlow optimizes a graph where it first runs it, and its stacks are so deep that they do not always
// reach a file of the tracer. A function that was traced at each step spent 59% of the time below those, 33%
// in its first runs, and was 25 times as fast without.
constexpr std::string_view kFirstRunFiles[] = {"/tensorflow/python/", "/keras/src/"};

// The recorder takes no stack of calls below 1 ms; half of it, because clocks differ. Most calls are shorter.
constexpr Ns kLeastStall = 500'000;

enum class Doing { kCompiling, kInBackend, kTracing, kHandingOver, kRunning, kElse };

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool has_any(std::string_view text, std::span<const std::string_view> parts) {
  return std::ranges::any_of(parts, [text](std::string_view part) { return has(text, part); });
}

Doing doing(std::string_view text) {
  if (has(text, kBackendFile)) return Doing::kInBackend;
  if (is_of_compiler(text)) return Doing::kCompiling;
  if (has(text, kHandsOver)) return Doing::kHandingOver;
  if (has_any(text, kTracingFiles)) return Doing::kTracing;
  return has_any(text, kFirstRunFiles) ? Doing::kRunning : Doing::kElse;
}

// The user's function that JAX traces; empty: none.
std::string traced_function(const std::string& text) {
  const std::vector<StackFrame> frames = frames_of(text);
  const auto users = std::ranges::find_if(frames, is_users);
  const bool is_called_by_tracer = std::any_of(
      users, frames.end(), [](const StackFrame& frame) { return has_any(frame.file, kTracingFiles); });
  return is_called_by_tracer ? users->function : "";
}

// What each sample was doing, in order of time.
class Compilations {
 public:
  void add(Doing doing, double weight) {
    all_ += weight;
    const bool is_compiling = doing == Doing::kInBackend || doing == Doing::kCompiling;
    spells_ += is_compiling && !was_in_compiler_;
    if (doing != Doing::kTracing && doing != Doing::kHandingOver) was_in_compiler_ = is_compiling;
    if (doing == Doing::kElse) of_spell_ = 0;
    if (doing == Doing::kTracing) around_ += weight;
    if (doing == Doing::kRunning) {
      const double part = std::min(weight, of_spell_);
      around_ += part;
      of_spell_ -= part;
    }
    if (!is_compiling) return;
    of_spell_ += weight;
    compiling_ += weight;
  }
  size_t spells() const { return spells_; }
  double share() const { return all_ > 0 ? compiling_ / all_ : 0; }
  double share_at_most() const { return all_ > 0 ? (compiling_ + around_) / all_ : 0; }

 private:
  double all_ = 0, compiling_ = 0, around_ = 0;
  size_t spells_ = 0;
  bool was_in_compiler_ = true;  // what had begun before is no spell of its own
  double of_spell_ = 0;          // compiled, and not matched yet by a first run, which takes no longer
};

// Compilations of which none is seen to end, because hardly anything runs between two of them: of a horizon
// that grew by a day every three steps 87% of the samples were in XLA, and none in a step.
class TracedAgain {
 public:
  void add(Doing doing, const std::string& text) {
    if (doing == Doing::kInBackend) is_compiled_ = true;
    if (doing != Doing::kTracing) return;
    if (std::exchange(is_compiled_, false)) ++program_;
    const std::string function = traced_function(text);
    if (function.empty()) return;
    const auto [first, is_new] = first_programs_.try_emplace(function, program_);
    if (is_new || first->second == program_ || counted_ == program_) return;
    counted_ = program_;
    ++times_;
  }
  size_t times() const { return times_; }

 private:
  std::map<std::string, size_t> first_programs_;  // for which each function was traced first
  bool is_compiled_ = false;
  size_t program_ = 1, counted_ = 0, times_ = 0;
};

// The user's line below the compiler's frames.
std::optional<StackFrame> compiled_line(std::vector<StackFrame> frames) {
  const auto outermost = std::find_if(frames.rbegin(), frames.rend(),
                                      [](const StackFrame& frame) { return is_of_compiler(frame.file); });
  frames.erase(frames.begin(), outermost.base());
  const auto users = std::ranges::find_if(frames, is_users);
  return users == frames.end() ? std::nullopt : std::optional(*users);
}

}  // namespace

bool is_of_compiler(std::string_view text) {
  return has_any(text, kCompilerFrames);
}

bool is_in_compiler(const Run& run, const Thread& thread, const HostCall& call) {
  const bool may_have_one = !thread.stacks.empty() && call.end - call.begin >= kLeastStall;
  const std::string* stack = may_have_one ? stack_of(run, thread, call) : nullptr;
  return stack && is_of_compiler(*stack);
}

std::optional<StackFrame> compiled_line_of(const Run& run, const Thread& thread, const HostCall& call) {
  const std::string* stack = stack_of(run, thread, call);
  return stack ? compiled_line(frames_of(*stack)) : std::nullopt;
}

std::optional<CompilerSamples> compiler_samples(const Run& run, const Process& process,
                                                const std::vector<TimeSpan>& intervals) {
  std::unordered_map<uint32_t, Doing> known;
  FunctionTallies lines;
  Compilations compilations;
  TracedAgain traced_again;
  std::vector<const WorkerStack*> samples = training_samples(process, intervals);
  std::ranges::sort(samples, {}, &WorkerStack::time);
  for (const WorkerStack* sample : samples) {
    const auto text = run.texts.find(sample->text);
    if (text == run.texts.end()) continue;
    const auto [place, is_new] = known.try_emplace(sample->text);
    if (is_new) place->second = doing(text->second);
    const double weight = double(std::max<Ns>(0, sample->weight));
    compilations.add(place->second, weight);
    traced_again.add(place->second, text->second);
    if (!is_of_compiler(text->second)) continue;
    if (const auto line = compiled_line(frames_of(text->second))) lines.add(*line, weight);
  }
  if (samples.size() < kLeastStackSamples || compilations.share() <= 0) return std::nullopt;
  CompilerSamples seen;
  seen.share = sampled_share(compilations.share(), double(samples.size()));
  seen.share_at_most = sampled_share(compilations.share_at_most(), double(samples.size())).high;
  seen.spells = compilations.spells();
  seen.traced_again = traced_again.times();
  if (const auto by_share = lines.by_share(); !by_share.empty()) seen.line = by_share.front().frame;
  return seen;
}

}  // namespace gpuwatch::model
