// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/script_work.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>

#include "analyzer/model/own_input.h"
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

bool is_transform(const StackFrame& frame) {
  return frame.file.find("/transforms/") != std::string::npos;
}

}  // namespace

std::string_view library_of(const StackFrame& frame) {
  const std::string_view file = frame.file;
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
    const bool is_package = frame->file.find("-packages/") != std::string::npos;
    if (is_package && !computes_model(*frame)) loops.emplace(library);
  }
}

std::optional<LibraryCall> library_call(const std::vector<StackFrame>& frames, const LoopLibraries& loops) {
  const auto caller = std::ranges::find_if(frames, is_users);
  // Deep in a library a recorded stack does not reach the script.
  const bool is_cut = caller == frames.end() && frames.size() >= kRecordedFrames;
  if (caller == frames.end() && !is_cut) return std::nullopt;
  if (std::any_of(frames.begin(), caller, computes_model)) return std::nullopt;
  if (std::any_of(is_cut ? frames.begin() : caller, frames.end(), calls_model)) return std::nullopt;
  if (waits_for_a_result(frames) || data_code(frames)) return std::nullopt;  // waits for data, or makes them
  for (auto frame = caller; frame != frames.begin();) {
    const std::string_view library = library_of(*--frame);
    if (library.empty() || is_one_of(kHoldLoops, library) || is_one_of(kPassOn, library)) continue;
    if (loops.contains(library)) continue;
    return LibraryCall{std::string(library), is_cut ? StackFrame() : *caller};
  }
  return std::nullopt;
}

std::optional<ScriptWork> script_work(const Run& run, const Process& process,
                                      const std::vector<TimeSpan>& intervals) {
  ScriptWork work;
  double all = 0, in_libraries = 0;
  std::unordered_map<uint32_t, std::optional<LibraryCall>> known;
  std::map<std::string, double> libraries;
  FunctionTallies callers;
  const std::vector<const WorkerStack*> samples = training_samples(process, intervals);
  const LoopLibraries loops = loop_libraries(run, samples);
  for (const WorkerStack* sample : samples) {
    const auto text = run.texts.find(sample->text);
    if (text == run.texts.end()) continue;
    const auto [call, is_new] = known.try_emplace(sample->text);
    if (is_new) call->second = library_call(frames_of(text->second), loops);
    const double weight = double(std::max<Ns>(0, sample->weight));
    ++work.samples;
    all += weight;
    if (!call->second) continue;
    in_libraries += weight;
    libraries[call->second->library] += weight;
    if (!call->second->caller.file.empty()) callers.add(call->second->caller, weight);
  }
  if (work.samples < kLeastStackSamples || in_libraries <= 0) return std::nullopt;
  work.share = sampled_share(in_libraries / all, double(work.samples));
  work.library =
      std::ranges::max_element(libraries, {}, [](const auto& entry) { return entry.second; })->first;
  if (const auto by_share = callers.by_share(); !by_share.empty()) work.caller = by_share.front().frame;
  return work;
}

}  // namespace gpuwatch::model
