// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/input_facts.h"
#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

extern const Rule kCollateCost;

namespace {

using attribute::Category;
using attribute::Group;

constexpr double kLeastInputShare = 0.05;
constexpr double kLeastCollate = 0.30;
constexpr double kLeastHandOverMs = 5;
constexpr double kLeastHandOverCpuMs = 2;

constexpr Threshold kThresholds[] = {
    {"share of the step spent waiting for data", kLeastInputShare, "of the step",
     "below it a job is not input bound"},
    {"collating", kLeastCollate, "of the fetch", "less, and making the samples is by far the larger part"},
    {"handing a batch over", kLeastHandOverMs, "ms a batch",
     "nine of ten batches take longer; passing a few tensors through shared memory takes 0.3 to 3 ms"},
    {"CPU time of the workers beside making the batch", kLeastHandOverCpuMs, "ms a batch",
     "passing a few tensors takes 0.3 ms; without it the batch waits for a busy machine, not for pickling"},
    kLeastGain,
};

// The recording as if collating cost nothing.
predict::LoaderReplayInput without_collating(const predict::LoaderReplayInput& recorded) {
  predict::LoaderReplayInput changed = recorded;
  for (predict::ReplayEpoch& epoch : changed.epochs) {
    for (predict::BatchCost& batch : epoch.batches) {
      if (batch.service_ns <= 0) continue;
      const double left = 1 - batch.collate_ns / batch.service_ns;
      for (double* part : {&batch.service_ns, &batch.cpu_ns, &batch.io_ns}) *part *= left;
      batch.collate_ns = 0;
    }
  }
  return changed;
}

std::optional<Finding> slow_collate(const RuleInput& input, double waits) {
  const InputFacts& facts = *input.facts;
  const double share = facts.fetch_ns > 0 ? facts.collate_ns / facts.fetch_ns : 0;
  if (share < kLeastCollate) return std::nullopt;
  const predict::LoaderSetting setting = input.loader_setting();
  const predict::LoaderReplayInput changed = without_collating(*input.loader);
  const double now = expected_step_ms(input, *input.loader, setting);
  const double after = expected_step_ms(input, changed, setting);
  if (now < after * kLeastSpeedup) return std::nullopt;

  Finding finding = make_finding(kCollateCost, input, std::min(waits, 1 - after / now));
  finding.title = "Collating takes a large part of making a batch";
  finding.evidence = {{"collating a batch", facts.per_batch(facts.collate_ns) / 1e6, "ms"},
                      {"of making it", 100 * share, "% of the fetch"},
                      share_evidence(input, Category::InputCollate)};
  finding.fix.change = NamedChange{"collate_fn", ""};
  finding.fix.summary =
      "samples as tensors of one shape, stacked once; what collate_fn computes belongs in "
      "__getitem__ or before training";
  finding.fix.snippet = "def collate_fn(samples): return torch.stack(samples)";
  finding.prediction = loader_prediction(input, changed, input.loader_check, setting);
  if (finding.prediction)
    finding.prediction->assumptions.push_back("collating costs nothing: stacking tensors of one shape does");
  if (!finding.prediction) finding.ceiling_speedup = now / after * (1 + std::abs(input.loader_check.error()));
  return finding;
}

// What is left of handing over once batches are cheap to pass is not known: a ceiling.
std::optional<Finding> slow_hand_over(const RuleInput& input) {
  const InputFacts& facts = *input.facts;
  const double lost = input.rank.share(Category::InputTransfer);
  const double ms = facts.transfer_ns / 1e6;
  const double cpu_ms = facts.transfer_cpu_ns() / 1e6;
  if (lost < kLeastInputShare || ms < kLeastHandOverMs || cpu_ms < kLeastHandOverCpuMs) return std::nullopt;

  Finding finding = make_finding(kCollateCost, input, lost);
  finding.title = "Handing batches over from the workers takes long";
  finding.evidence = {share_evidence(input, Category::InputTransfer),
                      {"from the end of a fetch until training has the batch, at least", ms, "ms"},
                      {"CPU time of the workers beside making a batch", cpu_ms, "ms"},
                      {"making a batch", facts.per_batch(facts.fetch_ns) / 1e6, "ms"}};
  finding.fix.change = NamedChange{"batch", ""};
  finding.fix.summary =
      "batches of few large tensors: they pass through shared memory; lists, strings, arrays "
      "and objects are pickled and copied through a pipe";
  finding.fix.snippet = "return torch.as_tensor(array)  # not lists or NumPy arrays";
  finding.ceiling_speedup = 1 / (1 - std::min(lost, 0.99));
  return finding;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  const double waits = input.rank.steady_input_share();
  if (!input.loader || !input.facts || waits < kLeastInputShare) return std::nullopt;
  auto finding = slow_collate(input, waits);
  if (!finding) finding = slow_hand_over(input);
  if (!finding) return std::nullopt;
  if (const model::Loader* configured = input.configured_loader())
    finding->fix.location = configured->location;
  return finding;
}

}  // namespace

const Rule kCollateCost{
    "collate-cost",
    "Putting the samples together to a batch, or handing the batch over to training, takes longer than "
    "making "
    "the samples allows.",
    "Data waits, and collating takes a third of the fetch, with a replay without it that is faster; or the "
    "time between a worker's last line and the batch in training (`input.transfer`), which shared memory "
    "makes short and pickling long.",
    "Samples as tensors of one shape that are stacked once, work moved from `collate_fn` to the dataset; "
    "batches of few large tensors instead of lists, strings, NumPy arrays or objects.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
