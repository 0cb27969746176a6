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
constexpr double kLeft = 0.005;

constexpr Threshold kThresholds[] = {
    {"blocked writes and flushes", kLeastShare, "of the step", "below it run-to-run spread hides the change"},
    {"steps that hold one", kLeastSteps, "of the steps", "what is rarer is a checkpoint (checkpoint-stall)"},
    {"left by the proposed interval", kLeft, "of the step", "well below what a run can show"},
};

// Outermost: what torch.save writes lies inside a checkpoint's call, which ends the search there.
bool is_log(const HostCall& call) {
  return writes_output(call.op_class);
}

HostCalls logging_calls(const RuleInput& input) {
  HostCalls all = training_calls(
      input, [](const HostCall& call) { return is_log(call) || call.op_class == OpClass::Checkpoint; });
  const model::Thread& thread = input.process.threads[input.process.training_thread];
  const bool has_checkpoints = std::any_of(all.members.begin(), all.members.end(), [&](uint32_t i) {
    return thread.calls[i].op_class == OpClass::Checkpoint;
  });
  if (!has_checkpoints) return all;
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

// 10, 50, 100, 500, ...: the first that leaves next to nothing.
int every(double share) {
  int steps = 10;
  for (bool is_five = true; share / steps > kLeft && steps < 100'000; is_five = !is_five)
    steps *= is_five ? 5 : 2;
  return steps;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (input.process.training_thread >= input.process.threads.size()) return std::nullopt;
  const HostCalls calls = logging_calls(input);
  const double share = calls.share(input);
  if (share < kLeastShare || double(calls.steps) < kLeastSteps * double(input.rank.steps.size()))
    return std::nullopt;
  const int steps = every(share);
  Finding finding = make_finding(kLoggingStall, input, share);
  const HostCall& longest = input.process.threads[input.process.training_thread].calls[calls.call];
  const std::string name = longest.operation < input.run.operations.size()
                               ? input.run.operations[longest.operation].name
                               : "write";
  const double per_step = double(calls.calls) / double(input.rank.steps.size());
  finding.title = fmt::format(
      "The training thread waits in {}, {:.3g} times a step: printing or writing events", name, per_step);
  finding.evidence = {{"blocked in writes and flushes", 100 * share, "% of the step"},
                      {"such calls", per_step, "a step"},
                      {"bytes", calls.bytes / double(input.rank.steps.size()), "a step"}};
  finding.fix.change = StreamChange{StreamEdit::kShortenHostWork, "logging interval", std::to_string(steps)};
  finding.fix.summary = fmt::format("log every {} steps, without flushing each line", steps);
  finding.fix.snippet = fmt::format("if step % {} == 0:  # print, writer.add_scalar, flush", steps);
  finding.fix.location = call_location(input.run, input.process, input.process.training_thread, calls.call);
  settle_without(finding, input, calls, 1.0 / steps);
  return finding;
}

}  // namespace

const Rule kLoggingStall{
    "logging-stall",
    "Printing or writing events in every step stops the training thread: a slow terminal, a full pipe, a "
    "flush to disk.",
    "Writes and flushes that blocked the training thread, outside of checkpoints, in a fifth of the steps or "
    "more.",
    "Log every N steps, let a buffer do its work, or write from a thread.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
