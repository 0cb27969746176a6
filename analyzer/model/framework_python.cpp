// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/framework_python.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "analyzer/model/compiler.h"
#include "analyzer/model/own_input.h"
#include "analyzer/model/script_work.h"
#include "analyzer/model/training_stacks.h"

namespace gpuwatch::model {
namespace {

// What one text of a stack shows.
struct Seen {
  bool is_framework = false, is_optimizer = false, is_in_graph = false;
  std::optional<StackFrame> caller;
};

bool has_part(const std::vector<StackFrame>& frames, std::string_view part) {
  return std::ranges::any_of(
      frames, [&](const StackFrame& frame) { return frame.file.find(part) != std::string::npos; });
}

Seen seen_in(const std::vector<StackFrame>& frames) {
  if (!runs_in_model(frames) || waits_for_a_result(frames) || own_line(frames) || library_call(frames))
    return {};
  const auto caller = std::ranges::find_if(frames, is_users);
  return {true, has_part(frames, "/optim/") || has_part(frames, "/optimizers/"),
          has_part(frames, "/polymorphic_function/"),
          caller != frames.end() ? std::optional(*caller) : std::nullopt};
}

struct Tally {
  double all = 0, framework = 0, optimizer = 0, in_graph = 0;
  FunctionTallies callers;

  void add(const Seen& seen, double weight) {
    framework += weight;
    if (seen.is_optimizer) optimizer += weight;
    if (seen.is_in_graph) in_graph += weight;
    if (seen.caller) callers.add(*seen.caller, weight);
  }
};

}  // namespace

std::optional<FrameworkPython> framework_python(const Run& run, const Process& process,
                                                const std::vector<TimeSpan>& intervals) {
  FrameworkPython python;
  Tally tally;
  std::unordered_map<uint32_t, Seen> known;
  for (const WorkerStack* sample : training_samples(process, intervals)) {
    const auto text = run.texts.find(sample->text);
    if (text == run.texts.end()) continue;
    const double weight = double(std::max<Ns>(0, sample->weight));
    ++python.samples;
    tally.all += weight;
    if (!sample->interprets) continue;
    const auto [seen, is_new] = known.try_emplace(sample->text);
    if (is_new && !is_of_compiler(text->second)) seen->second = seen_in(frames_of(text->second));
    if (seen->second.is_framework) tally.add(seen->second, weight);
  }
  if (python.samples < kLeastStackSamples || tally.framework <= 0) return std::nullopt;
  python.share = sampled_share(tally.framework / tally.all, double(python.samples));
  python.optimizer = tally.optimizer / tally.framework;
  python.in_graph = tally.in_graph / tally.framework;
  if (const auto by_share = tally.callers.by_share(); !by_share.empty())
    python.caller = by_share.front().frame;
  return python;
}

}  // namespace gpuwatch::model
