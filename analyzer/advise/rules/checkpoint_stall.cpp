// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "analyzer/advise/host_calls.h"
#include "analyzer/advise/location.h"
#include "analyzer/model/phases.h"

namespace gpuwatch::advise {

extern const Rule kCheckpointStall;

namespace {

using model::HostCall;
using trace::OpClass;

constexpr double kLeastShare = 0.03;
constexpr double kRare = 0.20;
constexpr double kLeastBytes = 1 << 20;
constexpr double kFailureHours = 24;

constexpr Threshold kThresholds[] = {
    {"saving", kLeastShare, "of training, evaluation and saving",
     "below it run-to-run spread hides the change"},
    {"writes that are a checkpoint where no torch.save is seen: at most", kRare, "of the steps",
     "what happens more often is logging (logging-stall)"},
    {"such writes in a job whose torch.save would be seen: at least", kLeastBytes, "bytes",
     "a model is larger, what is logged is smaller"},
    {"time between failures that the proposed interval rests on", kFailureHours, "h",
     "an assumption; the best interval is sqrt(2 x cost x time between failures)"},
};

bool is_write(const HostCall& call) {
  return writes_output(call.op_class);
}

// What saves in this job: torch.save where it is seen, else writes that are rare.
HostCalls saving_calls(const RuleInput& input) {
  HostCalls calls =
      training_calls(input, [](const HostCall& c) { return c.op_class == OpClass::Checkpoint; });
  if (calls.calls > 0) return calls;
  calls = training_calls(input, is_write);
  const bool is_rare = double(calls.steps) <= kRare * double(input.rank.steps.size());
  const bool is_large =
      !input.process.facts.contains("torch") || calls.bytes >= kLeastBytes * double(calls.steps);
  return is_rare && is_large ? calls : HostCalls{};
}

struct Saves {
  double seconds = 0;  // all of them, also those between steps
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
    saves.seconds = in_steps.total_ns / 1e9;
    saves.count = in_steps.steps;
  }
  return saves;
}

std::string fix_words(double cost_s, double every_s) {
  std::string words =
      "save in the background (torch.distributed.checkpoint.async_save, or copy to CPU and write "
      "from a thread)";
  const double best_s = std::sqrt(2 * cost_s * kFailureHours * 3600);
  if (best_s > every_s) words += fmt::format(", or every {:.0f} s: now every {:.3g} s", best_s, every_s);
  return words;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (input.rank.steps.empty()) return std::nullopt;
  const HostCalls calls = saving_calls(input);
  const Saves saves = all_saves(input, calls);
  if (saves.count == 0 || saves.span_s <= 0 || saves.seconds < kLeastShare * saves.span_s)
    return std::nullopt;
  const double share = std::min(saves.seconds / saves.span_s, 0.99);
  const double cost_s = saves.seconds / double(saves.count), every_s = saves.span_s / double(saves.count);
  Finding finding = make_finding(kCheckpointStall, input, share);
  finding.title = fmt::format("Saving stops training: {} checkpoint{} of {:.3g} s each, {:.0f} % of the time",
                              saves.count, saves.count == 1 ? "" : "s", cost_s, 100 * share);
  finding.evidence = {{"checkpoints", double(saves.count), "in the run"},
                      {"a checkpoint takes", cost_s, "s"},
                      {"a checkpoint comes every", every_s, "s"}};
  if (calls.bytes > 0 && calls.calls > 0) {
    finding.evidence.push_back(
        {"written in blocking calls", calls.bytes / 1e6 / double(saves.count), "MB a checkpoint"});
    finding.evidence.push_back({"rate", calls.bytes / 1e6 / (calls.total_ns / 1e9), "MB/s"});
  }
  finding.fix.change = StreamChange{
      StreamEdit::kShortenHostWork, "checkpoint",
      fmt::format("every {:.0f} s", std::max(every_s, std::sqrt(2 * cost_s * kFailureHours * 3600)))};
  finding.fix.summary = fix_words(cost_s, every_s);
  if (calls.call != model::kNone)
    finding.fix.location = call_location(input.run, input.process, input.process.training_thread, calls.call);
  if (calls.share(input) >= kLeastShare) settle_without(finding, input, calls);
  if (!finding.prediction) finding.ceiling_speedup = 1 / (1 - share);
  if (finding.prediction) finding.prediction->assumptions.push_back("the copy that is saved costs nothing");
  return finding;
}

}  // namespace

const Rule kCheckpointStall{
    "checkpoint-stall",
    "Training stands still while a checkpoint is written.",
    "Time in torch.save on the training thread, or in writes that come in few steps, also between epochs; "
    "bytes, seconds and how often.",
    "Save in the background, to a faster disk, or less often: the interval that loses least is about "
    "sqrt(2 x cost x time between failures).",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
