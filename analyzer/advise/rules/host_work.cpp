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
    {"host work (on a CPU job: sleeping and waiting)", kLeastShare, "of the step", "XProf's lower band"},
    {"steps that contain such work", kLeastSteps, "of the steps",
     "work in fewer steps is evaluation, logging or a checkpoint"},
    {"time without a CUDA call", kLongGapNs / 1e6, "ms",
     "a framework takes 5 to 50 us between launches, an optimizer's Python loop 0.1 ms (`launch-bound`)"},
};

struct HostWork {
  predict::StreamReplayInput without;
  size_t steps = 0;
  double ns = 0;
  uint32_t call = model::kNone;  // the CUDA call after the longest piece of it
};

// Covered by other rules: saving, logging, garbage collection, reading.
bool has_own_rule(const model::HostCall& call) {
  const OpClass op_class = call.op_class;
  const bool reads_file = reads_input(op_class) && op_class != OpClass::Receive;
  return reads_file || writes_output(op_class) || op_class == OpClass::Checkpoint ||
         op_class == OpClass::GarbageCollection;
}

// Long gaps between two CUDA calls of the training thread, less what other rules cover.
HostWork find_host_work(const RuleInput& input) {
  HostWork work{*input.assumed_streams};
  std::vector<predict::HostEvent>& events = work.without.events;
  const std::vector<double> other = ns_before_events(input, events, training_calls(input, has_own_rule));
  double longest = 0;
  uint32_t last_step = model::kNone;
  for (size_t i = 0; i < events.size(); ++i) {
    predict::HostEvent& event = events[i];
    const double work_ns = event.gap_ns - other[i];
    if (event.thread != input.process.training_thread || work_ns < kLongGapNs) continue;
    event.gap_ns -= work_ns;
    work.ns += work_ns;
    work.steps += event.step != last_step;
    last_step = event.step;
    if (work_ns <= longest) continue;
    longest = work_ns;
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

Finding describe(const RuleInput& input, double share, uint32_t call) {
  Finding finding = make_finding(kHostWork, input, share);

  finding.fix.change = StreamChange{StreamEdit::kShortenHostWork, "own work", "every 50 steps"};
  finding.fix.summary = "Move this work to the DataLoader's workers or the GPU, or run it every 50 steps";
  if (call != model::kNone)
    finding.fix.location = call_location(input.run, input.process, input.process.training_thread, call);
  return finding;
}

// Without synchronization points the launch queue would keep the device busy during this work: then they are
// the bottleneck (sync-per-step).
bool would_be_hidden(const RuleInput& input, const HostWork& work) {
  predict::StreamReplayInput running = *input.assumed_streams;
  predict::drop_synchronizations(
      running, [&](const predict::HostEvent& event) { return is_sync_point(input, event); });
  return predict::replay(running).step_ms <= predict::replay(work.without).step_ms * kLeastSpeedup;
}

std::optional<Finding> on_device(const RuleInput& input, double share) {
  HostWork work = find_host_work(input);
  if (double(work.steps) < kLeastSteps * double(input.rank.steps.size())) return std::nullopt;
  if (would_be_hidden(input, work)) return std::nullopt;
  const double steps = double(input.rank.steps.size()), ms = work.ns / steps / 1e6;
  Finding finding = describe(input, share, work.call);
  finding.title =
      fmt::format("Host work: the GPU idles while the script runs {:.3g} ms a step between CUDA calls", ms);
  finding.evidence = {{"GPU idle while the script runs", 100 * share, "% of the step"},
                      {"such work occurs in", 100 * double(work.steps) / steps, "% of the steps"},
                      {"script between CUDA calls", ms, "ms a step"}};
  add_reported_range(finding, input, time_of(input, Category::HostCompute));
  finding.prediction = stream_prediction(input, work.without);
  if (!finding.prediction) finding.ceiling_speedup = 1 / (1 - std::min(share, 0.99));
  return finding;
}

// On a CPU job the script's work cannot be separated from the model's compute, but sleeping (a simulated
// environment, polling, rate limits) can.
std::optional<Finding> on_cpu(const RuleInput& input) {
  const HostCalls calls =
      training_calls(input, [](const model::HostCall& call) { return pauses(call.op_class); });
  const double share = calls.share(input);
  if (share < kLeastShare || double(calls.steps) < kLeastSteps * double(input.rank.steps.size()))
    return std::nullopt;
  const double steps = double(input.rank.steps.size()), ms = calls.total_ns / steps / 1e6;
  Finding finding = describe(input, share, calls.call);
  finding.title =
      fmt::format("Host work: the training thread sleeps or waits for a child process {:.3g} ms a step", ms);
  finding.evidence = {{"sleeping or waiting for a child process", 100 * share, "% of the step"},
                      {"such a wait occurs in", 100 * double(calls.steps) / steps, "% of the steps"},
                      {"sleeping or waiting", ms, "ms a step"}};
  finding.fix.summary = "Move the wait off the training thread, or do it every 50 steps";
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
    "The script works on the thread that launches kernels: metrics, tokenization, a CPU optimizer, "
    "environment steps, augmentation.",
    "The GPU is idle and the training thread makes no CUDA call for a millisecond or more at the same place "
    "in most steps. Launches close together are `launch-bound`; work that the launch queue would hide if the "
    "host did not wait for the GPU is `sync-per-step`. On a CPU job the script's work cannot be separated "
    "from the model's compute, so only sleeping and waiting for child processes are found.",
    "Move it to DataLoader workers or to the GPU, or run it every N steps, at the named line. CUDA graphs do "
    "not help.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
