// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/stacks.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "analyzer/model/decoders.h"
#include "analyzer/model/packages.h"

namespace gpuwatch::model {
namespace {

constexpr size_t kMostFrames = 64;

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// ".../lib/python3.11/contextlib.py"
bool is_standard_library(const std::string& file) {
  constexpr std::string_view kFolder = "/lib/python3.";
  size_t at = file.find(kFolder);
  if (at == std::string::npos) return false;
  at += kFolder.size();
  while (at < file.size() && file[at] >= '0' && file[at] <= '9') ++at;
  return at < file.size() && file[at] == '/';
}

bool is_package(const StackFrame& frame) {
  return frame.is_of_package || contains(frame.file, "/site-packages/") ||
         contains(frame.file, "/dist-packages/");
}

// What pip writes for a package's program: ".../bin/yolo", whose lines only call the package.
bool is_start_script(const StackFrame& frame) {
  constexpr std::string_view kFolder = "/bin/";
  const size_t name = frame.file.rfind('/') + 1;
  return frame.function == "<module>" && name >= kFolder.size() &&
         frame.file.compare(name - kFolder.size(), kFolder.size(), kFolder) == 0 &&
         frame.file.find('.', name) == std::string::npos;
}

std::optional<StackFrame> frame_of(std::string_view line) {
  StackFrame frame;
  // No function's name has a space; a path may.
  size_t space = line.rfind(' ');
  if (space == std::string_view::npos) return std::nullopt;
  size_t colon = line.rfind(':', space);
  if (colon == std::string_view::npos) return std::nullopt;
  const char* end = line.data() + space;
  auto [rest, error] = std::from_chars(line.data() + colon + 1, end, frame.line);
  if (error != std::errc() || rest != end) return std::nullopt;
  frame.file = line.substr(0, colon);
  frame.function = line.substr(space + 1);
  frame.is_of_package = frame.function.ends_with(kPackageMark);
  if (frame.is_of_package) frame.function.pop_back();
  frame.is_generator = frame.function.ends_with('*');
  if (frame.is_generator) frame.function.pop_back();
  return frame;
}

// --- a worker's stack

bool is_worker_loop(const StackFrame& frame) {
  return frame.function == "_worker_loop" && frame.file.ends_with("worker.py");
}

bool is_named(const std::string& function, std::string_view name) {  // qualified or not
  return function.ends_with(name) &&
         (function.size() == name.size() || function[function.size() - name.size() - 1] == '.');
}

// It waits for the next index to be sent: the frame that the loop called is a queue's get().
bool is_idle(const std::vector<StackFrame>& frames, size_t loop) {
  return loop > 0 && loop < frames.size() && frames[loop - 1].file.ends_with("queues.py") &&
         is_named(frames[loop - 1].function, "get");
}

// Which frame a sample counts for.
const StackFrame* working_frame(const std::vector<StackFrame>& frames, size_t loop) {
  const std::vector<StackFrame> inner(frames.begin(), frames.begin() + ptrdiff_t(loop));
  const StackFrame* users = users_frame(inner);
  return users ? &frames[size_t(users - inner.data())] : &frames.front();
}

// When each worker's loop began, by pid; 0: not seen.
std::unordered_map<uint32_t, Ns> workers_of(const Process& process, uint32_t loader) {
  std::unordered_map<uint32_t, Ns> result;
  for (const LoaderEpoch& epoch : process.epochs) {
    if (epoch.loader != loader) continue;
    for (const Worker& worker : epoch.workers) {
      auto [entry, is_new] = result.try_emplace(worker.pid, worker.start);
      if (!is_new && worker.start != 0) entry->second = std::min(entry->second, worker.start);
    }
  }
  return result;
}

class ActivityCounter {
 public:
  explicit ActivityCounter(const Run& run) : run_(run) {}

  void add(const WorkerStack& sample, Ns loop_began) {
    auto text = run_.texts.find(sample.text);
    if (text == run_.texts.end()) return;
    const double weight = double(std::max<Ns>(0, sample.weight));
    auto [entry, is_new] = known_.try_emplace(sample.text);
    if (is_new) entry->second = look_at(text->second);
    const Seen& seen = entry->second;
    if (loop_began == 0 ? !seen.is_in_loop : sample.time < loop_began) {
      starting_ += weight;
      return;
    }
    if (!seen.frame) {
      idle_ += weight;
      return;
    }
    busy_ += weight;
    if (seen.is_decoding) decoding_ += weight;
    functions_.add(*seen.frame, weight);
  }

  WorkerActivity result() const {
    WorkerActivity activity;
    const double awake = busy_ + idle_;
    if (awake + starting_ > 0) activity.starting_share = starting_ / (awake + starting_);
    if (awake > 0) activity.busy_share = busy_ / awake;
    if (busy_ > 0) activity.decoding_share = decoding_ / busy_;
    activity.functions = functions_.by_share();
    for (const SeenFunction& function : activity.functions) activity.stack_samples += function.samples;
    return activity;
  }

 private:
  struct Seen {
    std::optional<StackFrame> frame;  // none: idle
    bool is_in_loop = false, is_decoding = false;
  };
  static Seen look_at(const std::string& text) {
    const std::vector<StackFrame> frames = frames_of(text);
    if (frames.empty()) return {};
    const auto loop = std::find_if(frames.begin(), frames.end(), is_worker_loop);
    const auto at = size_t(loop - frames.begin());  // frames.size() where a deep stack was cut before it
    if (is_idle(frames, at)) return {std::nullopt, true};
    return {*working_frame(frames, at), at < frames.size(), std::any_of(frames.begin(), loop, decodes_file)};
  }

  const Run& run_;
  std::unordered_map<uint32_t, Seen> known_;
  FunctionTallies functions_;
  double busy_ = 0, idle_ = 0, starting_ = 0, decoding_ = 0;
};

// The call of this thread that a stack belongs to, if it is of the given kind.
bool is_stack_of(const StackAt& stack, const Thread& thread, const HostCall& like) {
  auto call = std::lower_bound(thread.calls.begin(), thread.calls.end(), stack.begin,
                               [](const HostCall& a, Ns begin) { return a.begin < begin; });
  // Where a damaged clock makes all calls begin at once, not all of them are searched for each stack.
  constexpr size_t kMostAtOnce = 64;
  for (size_t i = 0; i < kMostAtOnce && call != thread.calls.end() && call->begin == stack.begin;
       ++call, ++i) {
    if (call->operation == like.operation && caller_of(thread, *call) == caller_of(thread, like)) return true;
  }
  return false;
}

// Up to Python 3.11 a comprehension is a function of its own, and a generator expression is one in all: to
// who reads the script it is a line of the function that it stands in.
bool is_comprehension(const StackFrame& frame) {
  constexpr std::string_view kNames[] = {"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>"};
  return std::ranges::any_of(kNames, [&](std::string_view name) { return frame.function.ends_with(name); });
}

void name_comprehensions(std::vector<StackFrame>& frames) {
  for (size_t i = frames.size(); i-- > 1;) {
    StackFrame& frame = frames[i - 1];
    if (frame.file != frames[i].file || !is_comprehension(frame) || !is_users(frame)) continue;
    frame.function = frames[i].function;
    frame.is_generator = frames[i].is_generator;
  }
}

}  // namespace

std::string StackFrame::location() const {
  return line > 0 ? file + ":" + std::to_string(line) : file;
}

std::vector<StackFrame> frames_of(const std::string& text) {
  std::vector<StackFrame> frames;
  for (size_t begin = 0; begin <= text.size() && frames.size() < kMostFrames;) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (auto frame = frame_of(std::string_view(text).substr(begin, end - begin)))
      frames.push_back(std::move(*frame));
    begin = end + 1;
  }
  name_comprehensions(frames);
  return frames;
}

std::vector<uint64_t> addresses_of(const std::string& text) {
  std::vector<uint64_t> addresses;
  std::string_view rest = text;
  while (rest.starts_with("0x") && addresses.size() < kMostFrames) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    uint64_t address = 0;
    const auto [end, error] = std::from_chars(line.data() + 2, line.data() + line.size(), address, 16);
    if (error != std::errc() || end != line.data() + line.size()) break;
    addresses.push_back(address);
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
  }
  return addresses;
}

bool is_torch_or_interpreter(const StackFrame& frame) {
  return frame.file.starts_with('<') || contains(frame.file, "-packages/torch/") ||
         contains(frame.file, "/torch/utils/data/") ||
         (frame.is_of_package && known_package(frame.file) == "torch") ||
         (is_standard_library(frame.file) && !is_package(frame));
}

bool is_users(const StackFrame& frame) {
  return !is_torch_or_interpreter(frame) && !is_package(frame) && !is_start_script(frame);
}

const StackFrame* users_frame(const std::vector<StackFrame>& frames) {
  const StackFrame *in_package = nullptr, *in_start_script = nullptr;
  for (const StackFrame& frame : frames) {
    if (is_users(frame)) return &frame;
    if (is_start_script(frame))
      in_start_script = &frame;
    else if (!in_package && !is_torch_or_interpreter(frame))
      in_package = &frame;
  }
  return in_package ? in_package : in_start_script;
}

std::optional<StackFrame> users_line(const Run& run, uint32_t text) {
  auto found = run.texts.find(text);
  if (found == run.texts.end()) return std::nullopt;
  const std::vector<StackFrame> frames = frames_of(found->second);
  const StackFrame* frame = users_frame(frames);
  return frame ? std::optional(*frame) : std::nullopt;
}

void FunctionTallies::add(const StackFrame& frame, double weight) {
  Tally& tally = functions_[{frame.file, frame.function}];
  ++tally.samples;
  tally.is_of_package = frame.is_of_package;
  tally.weight += weight;
  tally.lines[frame.line] += weight;
  weight_ += weight;
}

std::vector<SeenFunction> FunctionTallies::by_share() const {
  const auto part = [&](double weight) { return weight_ > 0 ? weight / weight_ : 0; };
  std::vector<SeenFunction> functions;
  for (const auto& [name, tally] : functions_) {
    std::vector<SeenLine> lines;
    for (const auto& [line, weight] : tally.lines) lines.push_back({line, part(weight)});
    std::ranges::stable_sort(lines, std::greater(), &SeenLine::share);
    const StackFrame frame{name.first, lines.front().line, name.second, false, tally.is_of_package};
    functions.push_back({frame, tally.samples, part(tally.weight), std::move(lines)});
  }
  std::stable_sort(functions.begin(), functions.end(),
                   [](const SeenFunction& a, const SeenFunction& b) { return a.share > b.share; });
  return functions;
}

bool waits_for_a_result(const std::vector<StackFrame>& frames) {
  constexpr std::string_view kFiles[] = {"/queue.py",
                                         "/threading.py",
                                         "/concurrent/futures/_base.py",
                                         "/multiprocessing/queues.py",
                                         "/multiprocessing/connection.py",
                                         "/multiprocessing/pool.py",
                                         "/multiprocessing/synchronize.py",
                                         "/socket.py",
                                         "/ssl.py"};
  constexpr std::string_view kEnds[] = {"join", "shutdown", "_wait_for_tstate_lock", "_shutdown", "__exit__"};
  bool is_in_wait = false;
  for (const StackFrame& frame : frames) {
    const bool is_known = std::any_of(std::begin(kFiles), std::end(kFiles),
                                      [&](std::string_view file) { return frame.file.ends_with(file); });
    if (std::any_of(std::begin(kEnds), std::end(kEnds), [&](std::string_view end) {
          return is_standard_library(frame.file) && is_named(frame.function, end);
        }))
      return false;
    if (!is_known || !is_standard_library(frame.file)) break;
    is_in_wait = true;
  }
  return is_in_wait;
}

std::optional<StackFrame> sample_code(const Loader& loader) {
  const std::vector<StackFrame> frames = frames_of(loader.code);
  return frames.empty() || !is_users(frames.front()) ? std::nullopt : std::optional(frames.front());
}

bool is_made_in(const Loader* loader, std::string_view file) {
  const std::vector<StackFrame> frames = loader ? frames_of(loader->code) : std::vector<StackFrame>();
  return !frames.empty() && frames.front().file.ends_with(file);
}

const std::string* stack_of(const Run& run, const Thread& thread, const HostCall& call) {
  auto stack = std::lower_bound(thread.stacks.begin(), thread.stacks.end(), call.begin,
                                [](const StackAt& a, Ns begin) { return a.begin < begin; });
  if (stack == thread.stacks.end() || stack->begin != call.begin) return nullptr;
  auto text = run.texts.find(stack->text);
  return text == run.texts.end() ? nullptr : &text->second;
}

std::optional<StackFrame> users_line_of(const Run& run, const Thread& thread, const HostCall& call) {
  if (const std::string* own = stack_of(run, thread, call)) {
    const std::vector<StackFrame> frames = frames_of(*own);
    if (const StackFrame* frame = users_frame(frames)) return *frame;
  }
  std::map<uint32_t, size_t> texts;
  for (const StackAt& stack : thread.stacks)
    if (is_stack_of(stack, thread, call)) ++texts[stack.text];
  std::map<std::tuple<std::string, uint32_t, std::string>, size_t> lines;
  for (const auto& [text, count] : texts)
    if (auto frame = users_line(run, text)) lines[{frame->file, frame->line, frame->function}] += count;
  if (lines.empty()) return std::nullopt;
  const auto& [file, line, function] = std::max_element(lines.begin(), lines.end(), [](auto& a, auto& b) {
                                         return a.second < b.second;
                                       })->first;
  return StackFrame{file, line, function};
}

WorkerActivity worker_activity(const Run& run, const Process& process, uint32_t loader) {
  ActivityCounter counter(run);
  const auto workers = workers_of(process, loader);
  for (const Thread& thread : process.threads) {
    for (const WorkerStack& sample : thread.worker_stacks) {
      auto worker = workers.find(sample.pid);
      if (worker != workers.end()) counter.add(sample, worker->second);
    }
  }
  return counter.result();
}

std::vector<const WorkerStack*> worker_samples(const Process& process, uint32_t loader) {
  const auto workers = workers_of(process, loader);
  std::vector<const WorkerStack*> samples;
  for (const Thread& thread : process.threads)
    for (const WorkerStack& sample : thread.worker_stacks)
      if (workers.contains(sample.pid)) samples.push_back(&sample);
  return samples;
}

WorkerActivity main_worker_activity(const Run& run, const Process& process) {
  WorkerActivity most;
  for (uint32_t loader = 0; loader < process.loaders.size(); ++loader) {
    WorkerActivity activity = worker_activity(run, process, loader);
    if (activity.stack_samples > most.stack_samples) most = std::move(activity);
  }
  return most;
}

}  // namespace gpuwatch::model
