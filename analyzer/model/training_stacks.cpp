// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/training_stacks.h"

#include <algorithm>
#include <unordered_map>

#include "analyzer/model/decoders.h"

namespace gpuwatch::model {
namespace {

bool is_within(const std::vector<TimeSpan>& intervals, Ns time) {
  const auto next = std::upper_bound(intervals.begin(), intervals.end(), time,
                                     [](Ns at, const TimeSpan& interval) { return at < interval.begin; });
  return next != intervals.begin() && time < std::prev(next)->end;
}

std::vector<const WorkerStack*> samples_of(const Process& process, uint32_t pid,
                                           const std::vector<TimeSpan>& intervals) {
  std::vector<const WorkerStack*> samples;
  for (const Thread& thread : process.threads)
    for (const WorkerStack& sample : thread.worker_stacks)
      if (sample.pid == pid && is_within(intervals, sample.time)) samples.push_back(&sample);
  return samples;
}

std::optional<StackFrame> innermost_line(const Run& run, uint32_t text) {
  const auto found = run.texts.find(text);
  if (found == run.texts.end()) return std::nullopt;
  for (const StackFrame& frame : frames_of(found->second))
    if (!is_torch_or_interpreter(frame)) return frame;
  return std::nullopt;
}

std::optional<StackFrame> line_in_fetch(const Run& run, uint32_t text) {
  const auto found = run.texts.find(text);
  if (found == run.texts.end()) return std::nullopt;
  const std::vector<StackFrame> frames = frames_of(found->second);
  const auto fetch = std::ranges::find_if(frames, is_loader_fetch);
  const auto line = std::find_if_not(frames.begin(), fetch, is_torch_or_interpreter);
  return fetch == frames.end() || line == fetch ? std::nullopt : std::optional(*line);
}

// Where the recorded stack does not reach the fetch, all of it is within.
std::optional<StackFrame> making_line(const Run& run, uint32_t text) {
  const auto found = run.texts.find(text);
  if (found == run.texts.end()) return std::nullopt;
  std::vector<StackFrame> frames = frames_of(found->second);
  frames.erase(std::ranges::find_if(frames, is_loader_fetch), frames.end());
  const StackFrame* frame = users_frame(frames);
  return frame ? std::optional(*frame) : std::nullopt;
}

template <typename FindLine>  // std::optional<StackFrame>(const Run&, uint32_t text)
std::vector<SeenFunction> functions_by(const FindLine& find, const Run& run, const Process& process,
                                       const std::vector<TimeSpan>& intervals) {
  FunctionTallies tallies;
  std::unordered_map<uint32_t, std::optional<StackFrame>> known;
  for (const WorkerStack* sample : training_samples(process, intervals)) {
    const auto [entry, is_new] = known.try_emplace(sample->text);
    if (is_new) entry->second = find(run, sample->text);
    if (entry->second) tallies.add(*entry->second, double(sample->weight));
  }
  std::vector<SeenFunction> functions = tallies.by_share();
  size_t samples = 0;
  for (const SeenFunction& function : functions) samples += function.samples;
  if (samples < kLeastStackSamples) functions.clear();
  return functions;
}

}  // namespace

bool is_loader_fetch(const StackFrame& frame) {
  return frame.file.ends_with("/torch/utils/data/_utils/fetch.py");
}

std::vector<const WorkerStack*> training_samples(const Process& process,
                                                 const std::vector<TimeSpan>& intervals) {
  return samples_of(process, process.pid, intervals);
}

std::vector<const WorkerStack*> other_thread_samples(const Process& process,
                                                     const std::vector<TimeSpan>& intervals) {
  return samples_of(process, kOfAnotherThread, intervals);
}

SampledShare sampled_share_of(const Run& run, const Process& process, const std::vector<TimeSpan>& intervals,
                              const StackTest& is_it) {
  double all = 0, there = 0;
  std::unordered_map<uint32_t, std::vector<StackFrame>> known;
  const std::vector<const WorkerStack*> samples = training_samples(process, intervals);
  for (const WorkerStack* sample : samples) {
    const auto [entry, is_new] = known.try_emplace(sample->text);
    const auto text = is_new ? run.texts.find(sample->text) : run.texts.end();
    if (text != run.texts.end()) entry->second = frames_of(text->second);
    const double weight = double(std::max<Ns>(0, sample->weight));
    all += weight;
    if (is_it(*sample, entry->second)) there += weight;
  }
  if (samples.size() < kLeastStackSamples || all <= 0) return {};
  return sampled_share(there / all, double(samples.size()));
}

std::vector<SeenFunction> training_functions(const Run& run, const Process& process,
                                             const std::vector<TimeSpan>& intervals) {
  return functions_by(users_line, run, process, intervals);
}

std::vector<SeenFunction> innermost_functions(const Run& run, const Process& process,
                                              const std::vector<TimeSpan>& intervals) {
  return functions_by(innermost_line, run, process, intervals);
}

std::vector<SeenFunction> fetch_functions(const Run& run, const Process& process,
                                          const std::vector<TimeSpan>& intervals) {
  return functions_by(line_in_fetch, run, process, intervals);
}

std::vector<SeenFunction> making_functions(const Run& run, const Process& process,
                                           const std::vector<TimeSpan>& intervals) {
  return functions_by(making_line, run, process, intervals);
}

std::optional<StackFrame> caller_of(const Run& run, const Process& process,
                                    const std::vector<TimeSpan>& intervals, const std::string& package) {
  const auto calling_line = [folder = "/" + package + "/"](const Run& of, uint32_t text) {
    const auto found = of.texts.find(text);
    const bool calls = found != of.texts.end() && found->second.find(folder) != std::string::npos;
    const std::optional<StackFrame> line = calls ? users_line(of, text) : std::nullopt;
    return line && is_users(*line) ? line : std::nullopt;
  };
  const std::vector<SeenFunction> lines = functions_by(calling_line, run, process, intervals);
  return lines.empty() ? std::nullopt : std::optional(lines.front().frame);
}

double decoding_share(const Run& run, const Process& process, const std::vector<TimeSpan>& intervals) {
  const auto decodes = [](const WorkerStack&, const std::vector<StackFrame>& frames) {
    return decodes_files(frames);
  };
  return sampled_share_of(run, process, intervals, decodes).share;
}

std::vector<SeenFunction> training_functions(const Run& run, const Process& process) {
  return training_functions(run, process, {{process.start, process.last_seen + 1}});
}

std::optional<SeenFunction> main_training_function(const Run& run, const Process& process,
                                                   const std::vector<TimeSpan>& intervals) {
  constexpr double kLeastShare = 0.5;
  const std::vector<SeenFunction> functions = training_functions(run, process, intervals);
  if (functions.empty() || functions.front().share < kLeastShare) return std::nullopt;
  return functions.front();
}

}  // namespace gpuwatch::model
