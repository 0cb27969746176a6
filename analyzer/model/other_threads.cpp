// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/other_threads.h"

#include <unordered_map>

#include "analyzer/model/script_work.h"
#include "analyzer/model/training_stacks.h"

namespace gpuwatch::model {
namespace {

bool is_started_by_python(const std::vector<StackFrame>& frames) {
  return !frames.empty() && frames.back().file.ends_with("/threading.py");
}

// Of a stack of such a thread; nullopt of any other.
std::optional<StackFrame> line_of(const Run& run, uint32_t text) {
  const auto found = run.texts.find(text);
  if (found == run.texts.end()) return std::nullopt;
  const std::vector<StackFrame> frames = frames_of(found->second);
  if (!is_started_by_python(frames)) return std::nullopt;
  const StackFrame* frame = users_frame(frames);
  return frame ? std::optional(*frame) : std::nullopt;
}

double weight_of(const std::vector<const WorkerStack*>& samples) {
  double weight = 0;
  for (const WorkerStack* sample : samples) weight += double(sample->weight);
  return weight;
}

}  // namespace

std::optional<OtherThreadWork> other_thread_work(const Run& run, const Process& process,
                                                 const std::vector<TimeSpan>& intervals) {
  const std::vector<const WorkerStack*> training = training_samples(process, intervals);
  const double all = weight_of(training);
  if (training.size() < kLeastStackSamples || all <= 0) return std::nullopt;
  std::unordered_map<uint32_t, std::optional<StackFrame>> known;
  FunctionTallies functions;
  double seen = 0;
  for (const WorkerStack* sample : other_thread_samples(process, intervals)) {
    const auto [entry, is_new] = known.try_emplace(sample->text);
    if (is_new) entry->second = line_of(run, sample->text);
    if (!entry->second) continue;
    functions.add(*entry->second, double(sample->weight));
    seen += double(sample->weight);
  }
  if (seen <= 0) return std::nullopt;
  const SeenFunction most = functions.by_share().front();
  OtherThreadWork work{training.size(), sampled_share(std::min(1.0, seen / all), double(training.size())),
                       most.frame, most.share};
  if (!is_users(most.frame)) work.package = library_of(most.frame);
  if (!work.package.empty()) work.called_at = caller_of(run, process, intervals, work.package);
  return work;
}

}  // namespace gpuwatch::model
