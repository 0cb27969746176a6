// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/script_work.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>

#include "analyzer/model/own_input.h"
#include "analyzer/model/packages.h"
#include "analyzer/model/training_stacks.h"

namespace gpuwatch::model {
namespace {

// Compute the model, or call what does from their own lines.
constexpr std::string_view kComputeModels[] = {
    "torch",    "torchvision",  "torchaudio", "functorch",  "triton",          "tensorflow", "keras",
    "tf_keras", "jax",          "jaxlib",     "flax",       "haiku",           "equinox",    "optax",
    "einops",   "opt_einsum",   "xformers",   "flash_attn", "torch_geometric", "dgl",        "kornia",
    "gpytorch", "torchmetrics", "deepspeed",  "apex",       "bitsandbytes",    "peft",       "torch_scatter"};
// Hold the loop that calls the script's lines and the model's.
constexpr std::string_view kHoldLoops[] = {
    "transformers", "lightning", "pytorch_lightning", "accelerate", "fastai", "fastcore",
    "ignite",       "skorch",    "composer",          "catalyst"};
// Of Python's own library: pass a call on.
constexpr std::string_view kPassOn[] = {"contextlib", "functools", "threading", "runpy", "concurrent"};

template <size_t kCount>
bool is_one_of(const std::string_view (&names)[kCount], std::string_view name) {
  return std::ranges::find(names, name) != std::end(names);
}

std::string_view first_part(std::string_view path) {
  return path.substr(0, path.find_first_of("/."));
}

// What calls the script's lines as a part of the model: a module's forward, an autograd function, tracing.
constexpr std::string_view kCallModels[] = {
    "/torch/nn/",         "/torch/autograd/", "/torch/optim/", "/torch/_tensor.py", "/torch/_dynamo/",
    "/keras/src/layers/", "/flax/",           "/haiku/",       "/equinox/",         "/jax/_src/",
    "/tensorflow/python/"};

bool calls_model(const StackFrame& frame) {
  return std::ranges::any_of(
      kCallModels, [&](std::string_view part) { return frame.file.find(part) != std::string::npos; });
}

LoopLibraries loop_libraries(const Run& run, const std::vector<const WorkerStack*>& samples) {
  LoopLibraries loops;
  std::set<uint32_t> seen;
  for (const WorkerStack* sample : samples) {
    const auto text = run.texts.find(sample->text);
    if (text != run.texts.end() && seen.insert(sample->text).second)
      note_loops(frames_of(text->second), loops);
  }
  return loops;
}

// Thin functions around one operation.
bool is_operation(const StackFrame& frame) {
  const bool is_method = frame.file.ends_with("/torch/_tensor.py") && !frame.function.ends_with("backward");
  return is_method || frame.file.ends_with("/torch/nn/functional.py");
}

using Frames = std::vector<StackFrame>::const_iterator;

// Lightning calls training_step() from within the optimizer's step: what is outside of it says nothing.
bool is_called_by_model(Frames line, Frames end) {
  return std::any_of(line, std::find_if(line, end, holds_loop), calls_model);
}

bool is_backward(const std::vector<StackFrame>& frames) {
  const auto is_autograd = [](const StackFrame& frame) {
    return frame.file.find("/torch/autograd/") != std::string::npos || frame.function.ends_with("backward");
  };
  return !frames.empty() && is_torch_or_interpreter(frames.front()) &&
         std::any_of(frames.begin(), std::ranges::find_if(frames, is_users), is_autograd);
}

bool is_transform(const StackFrame& frame) {
  return frame.file.find("/transforms/") != std::string::npos;
}

}  // namespace

std::string_view library_of(const StackFrame& frame) {
  const std::string_view file = frame.file;
  if (frame.is_of_package) return known_package(file);
  constexpr std::string_view kPackages = "-packages/", kPython = "/lib/python3.";
  if (const size_t at = file.rfind(kPackages); at != std::string_view::npos)
    return first_part(file.substr(at + kPackages.size()));
  const size_t at = file.find(kPython);
  if (at == std::string_view::npos) return "";
  const size_t folder = file.find('/', at + kPython.size());
  return folder == std::string_view::npos ? "" : first_part(file.substr(folder + 1));
}

bool computes_model(const StackFrame& frame) {
  return is_one_of(kComputeModels, library_of(frame));
}

bool holds_loop(const StackFrame& frame) {
  return is_one_of(kHoldLoops, library_of(frame));
}

bool runs_in_model(const std::vector<StackFrame>& frames) {
  return std::ranges::any_of(frames, calls_model) && std::ranges::none_of(frames, is_transform);
}

void note_loops(const std::vector<StackFrame>& frames, LoopLibraries& loops) {
  const auto outermost = std::find_if(frames.rbegin(), frames.rend(), calls_model);
  for (auto frame = frames.rbegin(); frame != outermost && outermost != frames.rend(); ++frame) {
    const std::string_view library = library_of(*frame);
    const bool is_package = frame->is_of_package || frame->file.find("-packages/") != std::string::npos;
    if (is_package && !computes_model(*frame)) loops.emplace(library);
  }
}

std::optional<LibraryCall> library_call(const std::vector<StackFrame>& frames, const LoopLibraries& loops) {
  const auto caller = std::ranges::find_if(frames, is_users);
  // Deep in a library a recorded stack does not reach the script.
  const bool is_cut = caller == frames.end() && frames.size() >= kRecordedFrames;
  if (caller == frames.end() && !is_cut) return std::nullopt;
  if (std::any_of(frames.begin(), caller, computes_model)) return std::nullopt;
  if (is_called_by_model(is_cut ? frames.begin() : caller, frames.end())) return std::nullopt;
  if (waits_for_a_result(frames) || data_code(frames)) return std::nullopt;  // waits for data, or makes them
  for (auto frame = caller; frame != frames.begin();) {
    const std::string_view library = library_of(*--frame);
    if (library.empty() || is_one_of(kHoldLoops, library) || is_one_of(kPassOn, library)) continue;
    if (loops.contains(library)) continue;
    return LibraryCall{std::string(library), is_cut ? StackFrame() : *caller};
  }
  return std::nullopt;
}

std::optional<StackFrame> own_line(const std::vector<StackFrame>& frames) {
  const auto line = std::ranges::find_if(frames, is_users);
  if (line == frames.end() || is_called_by_model(line, frames.end())) return std::nullopt;
  const bool is_alone = std::all_of(frames.begin(), line, [](const StackFrame& frame) {
    return is_torch_or_interpreter(frame) && (!calls_model(frame) || is_operation(frame));
  });
  if (!is_alone || waits_for_a_result(frames) || data_code(frames)) return std::nullopt;
  return *line;
}

namespace {

// What one text of a stack shows.
struct SeenWork {
  std::optional<LibraryCall> call;
  std::optional<StackFrame> own;
  bool is_backward = false;
};

SeenWork seen_work(const std::vector<StackFrame>& frames, const LoopLibraries& loops) {
  return {library_call(frames, loops), own_line(frames), is_backward(frames)};
}

// Weights of samples.
struct WorkTally {
  double all = 0, libraries = 0, own = 0, backward = 0;
  std::map<std::string, double> by_library;
  FunctionTallies callers, own_functions;

  void add(const SeenWork& seen, double weight, bool counts_own) {
    all += weight;
    if (seen.is_backward) backward += weight;
    if (seen.call) {
      libraries += weight;
      by_library[seen.call->library] += weight;
      if (!seen.call->caller.file.empty()) callers.add(seen.call->caller, weight);
    } else if (seen.own && counts_own) {
      own += weight;
      own_functions.add(*seen.own, weight);
    }
  }
};

ScriptWork summed(const WorkTally& tally, size_t samples) {
  const bool is_own = tally.own > tally.libraries;
  ScriptWork work{samples,
                  sampled_share((is_own ? tally.own : tally.libraries) / tally.all, double(samples)),
                  "",
                  {},
                  sampled_share(tally.backward / tally.all, double(samples))};
  if (!is_own)
    work.library =
        std::ranges::max_element(tally.by_library, {}, [](const auto& entry) { return entry.second; })->first;
  const auto by_share = (is_own ? tally.own_functions : tally.callers).by_share();
  if (!by_share.empty()) work.caller = by_share.front().frame;
  return work;
}

}  // namespace

std::optional<ScriptWork> script_work(const Run& run, const Process& process,
                                      const std::vector<TimeSpan>& intervals, ScriptPart part) {
  size_t count = 0;
  WorkTally tally;
  std::unordered_map<uint32_t, SeenWork> known;
  const std::vector<const WorkerStack*> samples = training_samples(process, intervals);
  const LoopLibraries loops = loop_libraries(run, samples);
  for (const WorkerStack* sample : samples) {
    const auto text = run.texts.find(sample->text);
    if (text == run.texts.end()) continue;
    const auto [seen, is_new] = known.try_emplace(sample->text);
    if (is_new) seen->second = seen_work(frames_of(text->second), loops);
    const bool counts_own = part == ScriptPart::kLibrariesAndOwnLines && sample->interprets;
    tally.add(seen->second, double(std::max<Ns>(0, sample->weight)), counts_own);
    ++count;
  }
  if (count < kLeastStackSamples || tally.libraries + tally.own <= 0) return std::nullopt;
  return summed(tally, count);
}

}  // namespace gpuwatch::model
