// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "analyzer/advise/host_calls.h"
#include "analyzer/advise/location.h"
#include "analyzer/advise/long_steps.h"
#include "analyzer/advise/quick_steps.h"
#include "analyzer/advise/remedy_words.h"
#include "analyzer/advise/saving_function.h"
#include "analyzer/model/phases.h"

namespace gpuwatch::advise {

extern const Rule kCheckpointStall;

namespace {

using model::HostCall;
using trace::OpClass;

constexpr double kLeastShare = 0.03;
constexpr double kRare = 0.20;
constexpr double kMostSteps = 0.50;
constexpr double kSameSteps = 0.8;
constexpr double kFailureHours = 24;

constexpr Threshold kThresholds[] = {
    {"time spent saving", kLeastShare, "of training, evaluation and saving",
     "smaller gains disappear in the variation from run to run"},
    {"steps with writes, where no torch.save was seen: at most", kRare, "of the steps",
     "writes in more steps than that are logging (logging-stall), not checkpoints"},
    {"the same with 1 MiB or more in each: at most", kMostSteps, "of the steps",
     "a model is larger, log output is smaller; PyTorch jobs, whose torch.save would have been seen, must "
     "write as much"},
    {"of the steps with such writes, those of more than three times the usual length", kSameSteps,
     "of either", "then what they take longer is serializing and compressing what they write"},
    {"assumed time between failures, for the proposed interval", kFailureHours, "h",
     "the interval that loses least time is sqrt(2 x time to save x time between failures)"},
};

bool is_write(const HostCall& call) {
  return writes_output(call.op_class);
}

// torch.save where it was seen, with what the script does to the file then: os.replace() of one that was just
// written took 196 ms after 267. Else writes that are rare.
HostCalls saving_calls(const RuleInput& input) {
  HostCalls calls =
      training_calls(input, [](const HostCall& c) { return c.op_class == OpClass::Checkpoint; });
  if (calls.calls > 0) {
    if (input.streams) add_what_follows(input, calls);
    return calls;
  }
  calls = training_calls(input, is_write);
  const bool is_large = write_models(calls);
  const double most = is_large ? kMostSteps : kRare;
  if (double(calls.steps) > most * double(input.rank.steps.size())) return {};
  if (!is_large && input.process.facts.contains("torch")) return {};
  if (input.streams && input.device) add_fetches(input, calls);
  return calls;
}

// Of the steps that write, what they take longer than the others, if these are the long ones: of 130 ms in
// which Keras saved a model, it wrote for 19. 0 where they are not, or the calls are nearly all of it, as
// torch.save is.
double longer_ns(const RuleInput& input, const HostCalls& writes) {
  const auto steps = find_long_steps(input.rank);
  if (!steps || input.streams) return 0;  // a timeline of the device has the copies that belong to a save
  const double both = double(std::ranges::count_if(
      steps->members, [&](size_t i) { return i < writes.ns_of_step.size() && writes.ns_of_step[i] > 0; }));
  const bool are_same =
      both >= kSameSteps * double(steps->members.size()) && both >= kSameSteps * double(writes.steps);
  const double excess_ns = double(steps->excess_ns());
  return are_same && writes.total_ns < kSameSteps * excess_ns ? excess_ns : 0;
}

bool is_torch_save(const RuleInput& input, const HostCalls& calls) {
  return calls.call != model::kNone &&
         input.process.threads[input.process.training_thread].calls[calls.call].op_class ==
             OpClass::Checkpoint;
}

// A call is no more than torch.save itself. Without a device, what follows it is what its step takes longer.
double following_ns(const RuleInput& input, const HostCalls& saves) {
  return std::max({0.0, saves.total_following_ns, longer_ns(input, saves) - saves.total_ns});
}

struct Saves {
  double seconds = 0;  // of all saves, also those between steps
  size_t count = 0;
  double span_s = 0;
};

Saves all_saves(const RuleInput& input, const HostCalls& in_steps) {
  const std::vector<model::Phase> phases = model::find_phases(input.process, input.rank.series);
  const model::TimeSpan span = model::training_span(input.rank.series, phases);
  Saves saves{0, 0, double(span.length()) / 1e9};
  for (const model::Phase& phase : phases) {
    if (phase.kind != model::PhaseKind::kCheckpoint || phase.time.begin < span.begin) continue;
    saves.seconds += double(phase.time.length()) / 1e9;
    ++saves.count;
  }
  if (saves.count == 0) {
    saves.seconds =
        std::max(in_steps.total_ns + in_steps.total_following_ns, longer_ns(input, in_steps)) / 1e9;
    saves.count = in_steps.steps;
  } else if (is_torch_save(input, in_steps)) {
    saves.seconds *= 1 + following_ns(input, in_steps) / in_steps.total_ns;
  }
  return saves;
}

// The steps after a save are slow ones: caches are cold, and a part of what was saved is still being written.
// Keras' checkpoints were bounded by 2.15x, and the job gained 2.37x without them.
double quick_part_of_others(const RuleInput& input, const HostCalls& saves) {
  attribute::RankAttribution others;
  for (size_t i = 0; i < input.rank.steps.size(); ++i)
    if (i >= saves.ns_of_step.size() || saves.ns_of_step[i] <= 0) others.steps.push_back(input.rank.steps[i]);
  return quick_part(input.process, others);
}

// Young's approximation: saving more often costs more time than a failure loses.
double best_interval_s(double cost_s) {
  return std::sqrt(2 * cost_s * kFailureHours * 3600);
}

void name_fix(Finding& finding, const RuleInput& input, double cost_s, double every_s) {
  const double best_s = best_interval_s(cost_s);
  finding.fix.change = StreamChange{StreamEdit::kShortenHostWork, "checkpoint",
                                    fmt::format("every {:.0f} s", std::max(every_s, best_s))};
  finding.fix.summary = speaks_torch(input.process)
                            ? "Save in the background (torch.distributed.checkpoint.async_save)"
                            : "Write checkpoints from a background thread";
  if (best_s > every_s)
    finding.fix.summary += fmt::format(", or save every {:.0f} s instead of every {:.3g} s", best_s, every_s);
}

// What samples say of the function that saves has an interval of its own.
void settle(Finding& finding, const RuleInput& input, const HostCalls& saves,
            const std::optional<model::SampledShare>& beside) {
  settle_without(finding, input, saves);
  if (!finding.prediction || !beside) return;
  const auto best = prediction_without(input, with_following(input, saves, beside->high));
  const auto worst = prediction_without(input, with_following(input, saves, beside->low));
  if (best && worst) finding.prediction = predict::between(*best, *worst);
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (input.rank.steps.empty()) return std::nullopt;
  HostCalls calls = saving_calls(input);
  // With a timeline of the device, add_what_follows() knows.
  const bool is_sampled = !input.streams && is_torch_save(input, calls);
  const auto beside = is_sampled ? beside_saving(input, calls) : std::nullopt;
  if (beside) calls = with_following(input, std::move(calls), beside->share);
  const Saves saves = all_saves(input, calls);
  if (saves.count == 0 || saves.span_s <= 0 || saves.seconds < kLeastShare * saves.span_s)
    return std::nullopt;
  const double share = std::min(saves.seconds / saves.span_s, 0.99);
  const double cost_s = saves.seconds / double(saves.count), every_s = saves.span_s / double(saves.count);
  Finding finding = make_finding(kCheckpointStall, input, share);
  finding.title =
      fmt::format("Checkpoints: training stops {:.0f}% of the time while they are written", 100 * share);
  finding.evidence = {{"checkpoints", double(saves.count), "in the run"},
                      {"time to save one", cost_s, "s"},
                      {"a checkpoint every", every_s, "s"}};
  if (calls.bytes > 0 && calls.calls > 0) {
    finding.evidence.push_back(
        {"written by blocking calls", calls.bytes / 1e6 / double(saves.count), "MB a checkpoint"});
    finding.evidence.push_back({"write speed", calls.bytes / 1e6 / (calls.total_ns / 1e9), "MB/s"});
  }
  name_fix(finding, input, cost_s, every_s);
  if (calls.call != model::kNone)
    finding.fix.location = call_location(input.run, input.process, input.process.training_thread, calls.call);
  if (calls.share(input) >= kLeastShare && longer_ns(input, calls) == 0)
    settle(finding, input, calls, beside);
  finding.ceiling_speedup = 1 / ((1 - share) * quick_part_of_others(input, calls));
  if (calls.total_following_ns > 0)
    finding.explains = finding.explains | attribute::CategorySet{attribute::Category::HostCompute};
  finding.is_of_the_run = !finding.prediction;
  if (finding.prediction)
    finding.prediction->assumptions.emplace_back(
        "copying the state before it is saved in the background takes no time");
  return finding;
}

}  // namespace

const Rule kCheckpointStall{
    "checkpoint-stall",
    "Training stops while a checkpoint is written.",
    "The training thread spends time in `torch.save`, or in file writes that occur in few steps, with the "
    "copies from the GPU that belong to either. Saves "
    "between epochs count too. The report gives the number of checkpoints, their duration and the bytes "
    "written.",
    "Save in the background, to a faster disk, or less often. The interval that loses least time is about "
    "sqrt(2 x time to save x time between failures).",
    kThresholds,
    evaluate,
    {attribute::Category::Checkpoint, attribute::Category::Sync, attribute::Category::CopyD2H,
     attribute::Category::CopyStaging}};

}  // namespace gpuwatch::advise
