// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/advise/host_calls.h"
#include "analyzer/advise/location.h"

namespace gpuwatch::advise {

extern const Rule kLoggingStall;

namespace {

using model::HostCall;
using trace::OpClass;

constexpr double kLeastShare = 0.03;
constexpr double kLeastSteps = 0.20;
constexpr double kMostCheckpoints = 0.50;
constexpr double kLeft = 0.005;

constexpr Threshold kThresholds[] = {
    {"blocking writes and flushes", kLeastShare, "of the step",
     "a smaller gain is lost in run-to-run variation"},
    {"steps that contain one", kLeastSteps, "of the steps",
     "writes in fewer steps are checkpoints (`checkpoint-stall`)"},
    {"steps with writes of 1 MiB or more in each", kMostCheckpoints, "of the steps",
     "in fewer steps than that they are checkpoints, too"},
    {"stall left by the proposed interval", kLeft, "of the step", "well below what a run can show"},
};

// Checkpoint calls are asked for as well, so that the writes nested in torch.save do not count as logging.
bool is_log(const HostCall& call) {
  return writes_output(call.op_class);
}

// Writes that are too short to be recorded one by one are in the attribution: an array of 8 MB goes out in
// pieces, of which those that blocked were half of the time.
HostCalls with_short_ones(const RuleInput& input, HostCalls calls) {
  if (input.streams || calls.total_ns <= 0) return calls;
  calls.total_ns = 0;
  for (size_t i = 0; i < calls.ns_of_step.size(); ++i) {
    const auto written = double(input.rank.steps[i].times[size_t(attribute::Category::Checkpoint)]);
    calls.ns_of_step[i] = std::max(calls.ns_of_step[i], written);
    calls.total_ns += calls.ns_of_step[i];
  }
  return calls;
}

HostCalls logging_calls(const RuleInput& input) {
  HostCalls all = training_calls(
      input, [](const HostCall& call) { return is_log(call) || call.op_class == OpClass::Checkpoint; });
  const model::Thread& thread = input.process.threads[input.process.training_thread];
  const bool has_checkpoints = std::any_of(all.members.begin(), all.members.end(), [&](uint32_t i) {
    return thread.calls[i].op_class == OpClass::Checkpoint;
  });
  if (!has_checkpoints) return with_short_ones(input, std::move(all));
  std::vector<model::TimeSpan> saves;
  for (uint32_t i : all.members)
    if (thread.calls[i].op_class == OpClass::Checkpoint)
      saves.push_back({thread.calls[i].begin, thread.calls[i].end});
  return training_calls(input, [&](const HostCall& call) {
    const auto after =
        std::upper_bound(saves.begin(), saves.end(), call.begin,
                         [](model::Ns t, const model::TimeSpan& save) { return t < save.end; });
    return is_log(call) && (after == saves.end() || call.begin < after->begin);
  });
}

// 10, 50, 100, 500, ...: the first that leaves less than kLeft.
int logging_interval(double share) {
  int steps = 10;
  for (bool is_five = true; share / steps > kLeft && steps < 100'000; is_five = !is_five)
    steps *= is_five ? 5 : 2;
  return steps;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (input.process.training_thread >= input.process.threads.size()) return std::nullopt;
  const HostCalls calls = logging_calls(input);
  const double share = calls.share(input);
  const double steps_with_one = double(calls.steps) / double(input.rank.steps.size());
  if (share < kLeastShare || steps_with_one < kLeastSteps) return std::nullopt;
  if (steps_with_one <= kMostCheckpoints && write_models(calls)) return std::nullopt;  // checkpoint-stall
  const int steps = logging_interval(share);
  Finding finding = make_finding(kLoggingStall, input, share);
  const HostCall& longest = input.process.threads[input.process.training_thread].calls[calls.call];
  const std::string name = longest.operation < input.run.operations.size()
                               ? input.run.operations[longest.operation].name
                               : "write";
  const double all_steps = double(input.rank.steps.size()), per_step = double(calls.calls) / all_steps;
  const bool is_data = write_models(calls);
  finding.title = fmt::format("{}: {} calls block the training thread for {:.0f}% of each step",
                              is_data ? "Writing files" : "Logging", name, 100 * share);
  finding.evidence = {{"blocking writes and flushes", 100 * share, "% of the step"},
                      {"blocking calls", per_step, "a step"},
                      {"written", calls.bytes / all_steps, "bytes a step"}};
  finding.fix.change = StreamChange{StreamEdit::kShortenHostWork, "logging interval", std::to_string(steps)};
  finding.fix.summary = is_data ? fmt::format("Write this file every {} steps, or from another thread", steps)
                                : fmt::format("Log every {} steps, and do not flush each line", steps);
  if (!is_data)
    finding.fix.snippet =
        fmt::format("if step % {} == 0: print(loss.item())  # likewise writer.add_scalar(), flush()", steps);
  finding.fix.location = call_location(input.run, input.process, input.process.training_thread, calls.call);
  settle_without(finding, input, calls, 1.0 / steps);
  return finding;
}

}  // namespace

const Rule kLoggingStall{"logging-stall",
                         "Printing or writing metrics in every step blocks the training thread: a slow "
                         "terminal, a full pipe, a flush to disk.",
                         "Writes and flushes that blocked the training thread, outside of checkpoints, in a "
                         "fifth of the steps or more.",
                         "Log every N steps, leave flushing to the buffer, or write from another thread.",
                         kThresholds,
                         evaluate,
                         {attribute::Category::Checkpoint}};

}  // namespace gpuwatch::advise
