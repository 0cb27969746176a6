// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/script_at_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/host_calls.h"
#include "analyzer/advise/steady_time.h"
#include "analyzer/advise/threads_at_work.h"
#include "analyzer/io/printable.h"
#include "analyzer/model/script_work.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;

// The script's work in each step, as far as stack samples tell it from the model's.
HostCalls evenly(const RuleInput& input, double share_of_compute) {
  HostCalls work;
  for (const attribute::StepAttribution& step : input.rank.steps) {
    const double ns = share_of_compute * double(step.times[size_t(Category::Compute)]);
    work.ns_of_step.push_back(ns);
    work.total_ns += ns;
  }
  work.calls = work.steps = work.ns_of_step.size();
  return work;
}

// The interval of a sampled share is the prediction's, too.
void settle_sampled(Finding& finding, const RuleInput& input, const model::ScriptWork& work) {
  constexpr double kKept = 1.0 / 50;
  const double computes = input.rank.share(Category::Compute);
  if (has_threads_at_work(input, work.share.share * computes)) {
    finding.ceiling_speedup = ceiling_without_threads(input, work.share.high * computes);
    return;
  }
  const auto least = prediction_without(input, evenly(input, work.share.low), kKept);
  const auto most = prediction_without(input, evenly(input, work.share.high), kKept);
  finding.prediction = prediction_without(input, evenly(input, work.share.share), kKept);
  if (finding.prediction && least && most) {
    predict::Estimate& step = finding.prediction->value;
    step.low = std::min(step.low, most->value.low);
    step.high = std::max(step.high, least->value.high);
    const double now = finding.prediction->now;
    finding.prediction->speedup = {now / step.high, now / step.expected, now / step.low};
    return;
  }
  finding.prediction.reset();
  finding.ceiling_speedup = ceiling_without(input, share_of_now(input, work.share.high * computes));
}

// Written as a few operations on whole tensors the work takes an unknown part of its time, and where it
// belongs to the loss its part of the backward pass goes, too: no prediction, and a bound that has both.
void describe_own_lines(Finding& finding, const RuleInput& input, const model::ScriptWork& work, double share,
                        double of_step) {
  const bool has_name = !work.caller.function.empty() && work.caller.function.front() != '<';
  const std::string function = has_name ? io::printable(work.caller.function)
                                        : io::printable(work.caller.location());  // "<module>", "<lambda>"
  finding.title = fmt::format(
      "Host work: {:.0f}% of each step goes into the script's own Python, one short operation after another, "
      "most of it in {}",
      100 * share, function);
  finding.evidence.front() = {"seen among the script's short operations", 100 * share, "% of each step"};
  finding.fix.summary = fmt::format(
      "Write the loop in {} as a few operations on whole tensors or arrays, move it to another process, or "
      "run "
      "it every 50 steps",
      function);
  const double most = share_of_now(input, (work.share.high + work.backward.share) * of_step);
  finding.ceiling_speedup = 1 / (1 - std::min(0.99, most));
  finding.may_have_to_stay = true;  // an environment, or a loop that stands for a model
}

// No prediction: a hook's tensors take the caches from the model and keep its memory. Of a network with
// sorted activations 151 ms a step became 11.5 without its hooks, where 27 were none of theirs.
void describe_hook(Finding& finding, const RuleInput& input, const model::ScriptWork& work, double share,
                   double of_step) {
  const std::string hook = io::printable(work.caller.function);
  finding.title = fmt::format("Host work: {:.0f}% of each step goes into the hook {}, which the model calls",
                              100 * share, hook);
  finding.evidence.front() = {"seen in hooks", 100 * share, "% of each step"};
  finding.fix.summary =
      fmt::format("Remove the hook {} (register_..._hook().remove()), or let it work every 50 steps", hook);
  finding.ceiling_speedup = ceiling_without_threads(input, work.share.high * of_step);
}

// No more than a bound: training's other threads sleep meanwhile, as while it makes a batch. Beside
// statistics of all weights it took 7.9 of 28.3 ms, and 5.9 without; beside their quantiles 7.7 of 21.6,
// and 5.0.
void describe_callback(Finding& finding, const RuleInput& input, const model::ScriptWork& work, double share,
                       double of_step) {
  const std::string callback = io::printable(work.caller.function);
  finding.title =
      fmt::format("Host work: {:.0f}% of each step goes into the callback {}", 100 * share, callback);
  finding.evidence.front() = {"seen in callbacks", 100 * share, "% of each step"};
  finding.fix.summary = fmt::format("Let the callback {} work every 50 steps, or remove it", callback);
  const double share_at_most = work.share.high * of_step;
  const double rest = (1 - share_at_most) * rest_without_input(input, share_at_most);
  finding.ceiling_speedup = ceiling_without(input, 1 - rest);
}

void describe_library(Finding& finding, const RuleInput& input, const model::ScriptWork& work, double share,
                      const char* of) {
  const std::string library = io::printable(work.library);
  finding.title = fmt::format("Host work: the training thread spends {:.0f}% {} in {}, not in the model",
                              100 * share, of, library);
  finding.fix.summary =
      fmt::format("Run the work in {} every 50 steps, or, if it needs nothing of the model, in {}", library,
                  another_process(input));
}

// Without steps nothing tells the loop from the rest of the program.
std::optional<Finding> in_program(const RuleInput& input, const model::ScriptWork& work, Finding finding) {
  describe_library(finding, input, work, work.share.share, "of the time");
  finding.ceiling_speedup = 1 / (1 - std::min(work.share.high, 0.99));
  finding.verdict = Verdict{
      "host-bound",
      fmt::format("HOST-BOUND: the training thread works in {}, not in the model, {:.0f}% of the time",
                  io::printable(work.library), 100 * work.share.share),
      *finding.ceiling_speedup, attribute::Bottleneck::Host};
  return finding;
}

}  // namespace

const char* another_process(const RuleInput& input) {
  return input.process.loaders.empty() ? "another process" : "the DataLoader's workers";
}

std::optional<Finding> script_at_work(const Rule& rule, const RuleInput& input, double least_share) {
  const bool has_steps = !input.rank.steps.empty();
  const auto time = has_steps ? attribute::times_of(input.rank, Category::Compute) : steady_time(input);
  const auto part = has_steps ? model::ScriptPart::kAll : model::ScriptPart::kLibraries;
  const auto work = model::script_work(input.run, input.process, time, part);
  const double of_step = has_steps ? input.rank.share(Category::Compute) : 1;
  if (!work || work->share.low * of_step < least_share) return std::nullopt;
  const double share = work->share.share * of_step, ms = share * input.rank.mean_step_ms();
  if (work->place == model::ScriptPlace::kOwnLines && ms < kLeastOwnMs) return std::nullopt;
  Finding finding = make_finding(rule, input, share);
  finding.fix.change = StreamChange{StreamEdit::kShortenHostWork, "own work", "every 50 steps"};
  finding.evidence = {{"seen in libraries that compute no model", 100 * share,
                       has_steps ? "% of each step" : "% of the time"},
                      {"stack samples", double(work->samples), "of the training thread"}};
  if (!work->caller.file.empty()) finding.fix.location = work->caller.location();
  finding.bottleneck = attribute::Bottleneck::Host;
  if (!has_steps) return in_program(input, *work, std::move(finding));
  finding.evidence.push_back({"such work", ms, "ms a step"});
  switch (work->place) {
    case model::ScriptPlace::kHook:
      describe_hook(finding, input, *work, share, of_step);
      break;
    case model::ScriptPlace::kCallback:
      describe_callback(finding, input, *work, share, of_step);
      break;
    case model::ScriptPlace::kOwnLines:
      describe_own_lines(finding, input, *work, share, of_step);
      break;
    case model::ScriptPlace::kLibrary:
      describe_library(finding, input, *work, share, "of each step");
      settle_sampled(finding, input, *work);
  }
  return finding;
}

}  // namespace gpuwatch::advise
