// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/own_input.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "analyzer/model/script_work.h"
#include "analyzer/model/training_stacks.h"

namespace gpuwatch::model {
namespace {

// "Clips.__next__" -> "__next__"
std::string_view unqualified(std::string_view function) {
  return function.substr(function.rfind('.') + 1);
}

// "ReplayBuffer.sample": the method of a class that holds or loads data. Python 3.10 and older do not tell
// the class.
bool is_of_data_class(std::string_view function, std::string_view name) {
  constexpr std::string_view kHolders[] = {"Buffer", "Replay", "Memory", "Dataset", "Loader", "Batch"};
  const std::string_view of_class = function.substr(0, function.size() - name.size());
  return std::ranges::any_of(
      kHolders, [&](std::string_view holder) { return of_class.find(holder) != std::string_view::npos; });
}

// "get_batch", "next_train_batch", "loadBatch"
bool is_named_for_data(std::string_view function) {
  constexpr std::string_view kVerbs[] = {"get",   "load",  "next",   "make",    "sample", "read",
                                         "fetch", "build", "create", "prepare", "draw",   "generate"};
  constexpr std::string_view kProtocol[] = {"__next__", "__getitem__", "__getitems__"};
  std::string_view name = unqualified(function);
  if (std::ranges::find(kProtocol, name) != std::end(kProtocol)) return true;
  name.remove_prefix(std::min(name.find_first_not_of('_'), name.size()));
  const bool is_of_batches =
      name.find("batch") != std::string_view::npos || name.find("Batch") != std::string_view::npos;
  return (is_of_batches || is_of_data_class(function, name)) &&
         std::ranges::any_of(kVerbs, [&](std::string_view verb) { return name.starts_with(verb); });
}

// "<genexpr>", "<lambda>": a part of whatever it stands in.
bool is_nameless(std::string_view name) {
  return name.starts_with('<');
}

bool makes_data(const StackFrame& frame) {
  const std::string_view name = unqualified(frame.function);
  return is_users(frame) && !is_nameless(name) && (frame.is_generator || is_named_for_data(frame.function));
}

// Of a library that neither computes models nor holds the loop: an iterator of its own.
bool iterates_in_library(const StackFrame& frame) {
  return !is_users(frame) && !is_torch_or_interpreter(frame) && !computes_model(frame) &&
         !holds_loop(frame) && (frame.is_generator || unqualified(frame.function) == "__next__");
}

// "for batch in tqdm(batches)": a generator that passes on what another one makes.
bool shows_progress(const StackFrame& frame) {
  constexpr std::string_view kLibraries[] = {"/tqdm/", "/rich/", "/fastprogress/", "/alive_progress/"};
  return std::ranges::any_of(
      kLibraries, [&](std::string_view part) { return frame.file.find(part) != std::string::npos; });
}

// The library's iterator that the script, or the library that holds the loop, iterates over: GluonTS hands
// its batches to Lightning so, without a DataLoader. A generator that a library uses within a call, as joblib
// and matplotlib do, is another matter.
const StackFrame* iterated_library(const std::vector<StackFrame>& frames) {
  bool is_iterated_over = frames.size() >= kRecordedFrames;
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
    if (is_iterated_over && iterates_in_library(*frame) && !shows_progress(*frame)) return &*frame;
    is_iterated_over = is_users(*frame) || holds_loop(*frame) || (is_iterated_over && shows_progress(*frame));
  }
  return nullptr;
}

bool reads_socket(const std::vector<StackFrame>& frames) {
  return !frames.empty() &&
         (frames.front().file.ends_with("/socket.py") || frames.front().file.ends_with("/ssl.py"));
}

bool waits_for_the_program(const std::vector<StackFrame>& frames) {
  return waits_for_a_result(frames) && !reads_socket(frames);
}

std::optional<DataCode> made_or_awaited(const std::vector<StackFrame>& frames) {
  if (runs_in_model(frames)) return std::nullopt;
  const auto line = std::ranges::find_if(frames, is_users);
  const auto outermost = std::find_if(frames.rbegin(), frames.rend(), makes_data);
  if (outermost != frames.rend()) return DataCode{*outermost, *line};
  const StackFrame* library = iterated_library(frames);
  if (!library) return std::nullopt;
  return DataCode{*library, line != frames.end() ? *line : *library};
}

}  // namespace

// A generator around `queue.get()` was in 58% of the samples of a job whose data a thread fetched: "the
// training thread itself makes the data" stood there, and one more such thread gained 2.06 times.
std::optional<DataCode> data_code(const std::vector<StackFrame>& frames) {
  return waits_for_the_program(frames) ? std::nullopt : made_or_awaited(frames);
}

std::optional<DataCode> awaited_data_code(const std::vector<StackFrame>& frames) {
  return waits_for_the_program(frames) ? made_or_awaited(frames) : std::nullopt;
}

std::optional<DataCode> awaiting_code(const std::vector<StackFrame>& frames) {
  const StackFrame* users = waits_for_a_result(frames) ? users_frame(frames) : nullptr;
  return users && is_users(*users) ? std::optional(DataCode{*users, *users}) : std::nullopt;
}

std::optional<OwnInput> own_input(const Run& run, const Process& process,
                                  const std::vector<TimeSpan>& intervals, FindDataCode find) {
  OwnInput input;
  double all = 0, in_data_code = 0;
  struct Seen {
    std::optional<DataCode> code;
    std::optional<StackFrame> call;  // the script's outermost
  };
  std::unordered_map<uint32_t, Seen> known;
  FunctionTallies functions, lines, calls;
  for (const WorkerStack* sample : training_samples(process, intervals)) {
    const auto text = run.texts.find(sample->text);
    if (text == run.texts.end()) continue;
    const auto [entry, is_new] = known.try_emplace(sample->text);
    if (is_new) {
      const std::vector<StackFrame> frames = frames_of(text->second);
      const auto call = std::find_if(frames.rbegin(), frames.rend(), is_users);
      entry->second = {find(frames), call != frames.rend() ? std::optional(*call) : std::nullopt};
    }
    const auto& [code, call] = entry->second;
    if (call) calls.add(*call, 1);
    const double weight = double(std::max<Ns>(0, sample->weight));
    ++input.samples;
    all += weight;
    if (!code) continue;
    in_data_code += weight;
    functions.add(code->function, weight);
    lines.add(code->line, weight);
  }
  if (input.samples < kLeastStackSamples || in_data_code <= 0) return std::nullopt;
  input.share = sampled_share(in_data_code / all, double(input.samples));
  input.function = functions.by_share().front().frame;
  input.line = lines.by_share().front().frame;
  // Deep in a library a recorded stack does not reach the script.
  if (const auto by_share = calls.by_share(); !is_users(input.line) && !by_share.empty())
    input.line = by_share.front().frame;
  return input;
}

}  // namespace gpuwatch::model
