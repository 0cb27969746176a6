// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "analyzer/advise/host_calls.h"
#include "analyzer/advise/location.h"
#include "analyzer/advise/reported_ranges.h"

namespace gpuwatch::advise {

extern const Rule kHostWork;

namespace {

using attribute::Category;
using trace::OpClass;

constexpr double kLeastShare = 0.05;
constexpr double kLeastSteps = 0.5;
constexpr double kLongGapNs = 1e6;

constexpr Threshold kThresholds[] = {
    {"the script's own work", kLeastShare, "of the step", "XProf's lower band"},
    {"steps that hold it", kLeastSteps, "of the steps",
     "what is rarer is evaluation, logging or a checkpoint"},
    {"time without a call", kLongGapNs / 1e6, "ms",
     "a framework takes 5 to 50 us from launch to launch, an optimizer's Python loop 0.1 ms (launch-bound)"},
};

struct Work {
  predict::StreamReplayInput without;
  size_t steps = 0;
  double ns = 0;
  uint32_t call = model::kNone;  // the one that ends the longest stretch of it
};

// What has a rule of its own: saving, logging, collecting garbage, reading.
bool is_something_else(const model::HostCall& call) {
  const OpClass op_class = call.op_class;
  const bool reads_file = reads_input(op_class) && op_class != OpClass::Receive;
  return reads_file || writes_output(op_class) || op_class == OpClass::Checkpoint ||
         op_class == OpClass::GarbageCollection;
}

// Time of the training thread between two calls of the timeline, in which nothing was launched.
Work own_work(const RuleInput& input) {
  Work work{*input.assumed_streams};
  std::vector<predict::HostEvent>& events = work.without.events;
  const std::vector<double> other = ns_before_events(input, events, training_calls(input, is_something_else));
  double longest = 0;
  uint32_t last_step = model::kNone;
  for (size_t i = 0; i < events.size(); ++i) {
    predict::HostEvent& event = events[i];
    const double own_ns = event.gap_ns - other[i];
    if (event.thread != input.process.training_thread || own_ns < kLongGapNs) continue;
    event.gap_ns -= own_ns;
    work.ns += own_ns;
    work.steps += event.step != last_step;
    last_step = event.step;
    if (own_ns <= longest) continue;
    longest = own_ns;
    work.call = event.call;
  }
  return work;
}

std::vector<model::TimeSpan> intervals_of(const RuleInput& input, const HostCalls& calls) {
  const auto& all = input.process.threads[input.process.training_thread].calls;
  std::vector<model::TimeSpan> intervals;
  for (const uint32_t member : calls.members) intervals.push_back({all[member].begin, all[member].end});
  return intervals;
}

Finding describe(const RuleInput& input, double share, double ms, uint32_t call) {
  Finding finding = make_finding(kHostWork, input, share);
  finding.title = fmt::format("The script computes {:.3g} ms a step itself while the {} waits", ms,
                              input.device ? "device" : "training thread");
  finding.evidence = {{"the script's own work", 100 * share, "% of the step"}, {"own work", ms, "ms a step"}};
  finding.fix.change = StreamChange{StreamEdit::kShortenHostWork, "own work", "every 50 steps"};
  finding.fix.summary =
      "move it to the loader's workers or to the device, or do it every 50 steps (metrics, "
      "tokenising, augmentation)";
  if (call != model::kNone)
    finding.fix.location = call_location(input.run, input.process, input.process.training_thread, call);
  return finding;
}

// Without synchronisations the device would have had its next work while the script does its own: then they
// are the cause (sync-per-step).
bool would_be_hidden(const RuleInput& input, const Work& work) {
  predict::StreamReplayInput running = *input.assumed_streams;
  predict::drop_synchronisations(
      running, [&](const predict::HostEvent& event) { return is_synchronisation(input, event); });
  return predict::replay(running).step_ms <= predict::replay(work.without).step_ms * kLeastSpeedup;
}

std::optional<Finding> on_device(const RuleInput& input, double share) {
  Work work = own_work(input);
  if (double(work.steps) < kLeastSteps * double(input.rank.steps.size())) return std::nullopt;
  if (would_be_hidden(input, work)) return std::nullopt;
  Finding finding = describe(input, share, work.ns / double(input.rank.steps.size()) / 1e6, work.call);
  add_reported_range(finding, input, time_of(input, Category::HostCompute));
  finding.prediction = stream_prediction(input, work.without);
  if (!finding.prediction) finding.ceiling_speedup = 1 / (1 - std::min(share, 0.99));
  return finding;
}

// Without a device the script's own computing cannot be told from the model's; sleeping (a simulated
// environment, polling, rate limits) can.
std::optional<Finding> on_cpu(const RuleInput& input) {
  const HostCalls calls =
      training_calls(input, [](const model::HostCall& call) { return pauses(call.op_class); });
  const double share = calls.share(input);
  if (share < kLeastShare || double(calls.steps) < kLeastSteps * double(input.rank.steps.size()))
    return std::nullopt;
  Finding finding =
      describe(input, share, calls.total_ns / double(input.rank.steps.size()) / 1e6, calls.call);
  finding.title = fmt::format("The training thread sleeps or waits for a child process {:.3g} ms a step",
                              calls.total_ns / double(input.rank.steps.size()) / 1e6);
  add_reported_range(finding, input, intervals_of(input, calls));
  settle_without(finding, input, calls);
  return finding;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  const double share = input.rank.share(Category::HostCompute);
  if (input.device && input.streams) return share >= kLeastShare ? on_device(input, share) : std::nullopt;
  return input.device_hidden() ? std::nullopt : on_cpu(input);
}

}  // namespace

const Rule kHostWork{
    "host-work",
    "The script itself computes on the thread that launches work: metrics, tokenising, a CPU optimizer, "
    "environment steps, augmentation.",
    "The device is idle and the training thread makes no call for a millisecond or more at the same place in "
    "most steps. Launches close together are launch-bound; work that would be hidden if the host did not "
    "wait for the device is sync-per-step. Without a "
    "device the script's computing cannot be told from the model's: only sleeping and waiting for children "
    "are "
    "named.",
    "Move it to loader workers or to the device, or do it every N steps, at this line. CUDA graphs do not "
    "help.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
