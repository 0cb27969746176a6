// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/input_facts.h"
#include "analyzer/advise/loader_words.h"
#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

extern const Rule kDataloaderHeadOfLine;

namespace {

using attribute::Category;

constexpr double kLeastShare = 0.02;

constexpr Threshold kThresholds[] = {
    {"waiting for one batch while a later one is finished", kLeastShare, "of the step",
     "two equally fast workers finish within 1% of each other by chance"},
    kLeastGain,
};

// DataLoader(in_order=...) came with PyTorch 2.6. An unknown version counts as a newer one.
bool has_in_order(const model::Process& process) {
  const auto torch = process.facts.find("torch");
  if (torch == process.facts.end()) return true;
  const char* at = torch->second.data();
  const char* end = at + torch->second.size();
  int major = 0, minor = 0;
  const auto dot = std::from_chars(at, end, major);
  if (dot.ec != std::errc() || dot.ptr == end) return true;
  std::from_chars(dot.ptr + 1, end, minor);
  return major > 2 || (major == 2 && minor >= 6);
}

void name_fix(Finding& finding, const RuleInput& input) {
  finding.fix.change = LoaderChange{LoaderOption::kInOrder, false};
  if (has_in_order(input.process)) {
    propose(finding, input, {LoaderOption::kInOrder, false});
    finding.fix.summary += ", which changes the order of batches";
  } else {
    finding.fix.summary = "Bucket samples by size, or update to PyTorch 2.6 and set in_order=False";
  }
  if (const model::Loader* configured = input.configured_loader())
    finding.fix.location = configured->location;
}

// What was recorded says nothing of other workers: a job without any was told that "the GPU idles 9% of each
// step" for a slow batch, next to 0%.
void describe(Finding& finding, const RuleInput& input, int workers, double lost) {
  finding.evidence = {{"time of the slowest batch", slowest_batch(*input.loader), "times the mean"},
                      {"spread of batch times", 100 * batch_variation(*input.loader), "% of their mean"}};
  if (workers != input.loader->setting.workers) {
    finding.title = fmt::format(
        "Batch order: with {} workers, a slow batch would block finished ones {:.0f}% of each step", workers,
        100 * lost);
    return;
  }
  finding.title = "Batch order: a slow batch blocks finished ones, " + stall_words(input, lost);
  finding.evidence.insert(finding.evidence.begin(), share_evidence(input, Category::InputHeadOfLine));
  finding.evidence.push_back(share_evidence(input, Category::InputNoPrefetch));
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (!input.loader) return std::nullopt;
  predict::LoaderSetting setting = input.loader_setting();
  // Another number of workers meets other batches: the replay alone knows of them.
  const bool is_of_other_workers = setting.workers != input.loader->setting.workers;
  double lost = input.rank.share(Category::InputHeadOfLine);
  if (setting.workers < 2 || !setting.in_order || (lost < kLeastShare && !is_of_other_workers))
    return std::nullopt;
  const double now = expected_step_ms(input, *input.loader, setting);
  setting.in_order = false;
  const double after = expected_step_ms(input, *input.loader, setting);
  if (now < after * kLeastSpeedup) return std::nullopt;
  if (is_of_other_workers) lost = 1 - after / now;

  Finding finding = make_finding(kDataloaderHeadOfLine, input, std::max(lost, 1 - after / now));
  describe(finding, input, setting.workers, lost);
  name_fix(finding, input);
  finding.prediction = loader_prediction(input, *input.loader, input.loader_check, setting);
  // Whatever training waits for, as far as the workers' own time allows: batches that come as they are ready
  // fill the buffer for those that wait for something else, too.
  finding.ceiling_speedup =
      loader_ceiling(input, *input.loader, input.rank.share(attribute::Group::Input), setting.workers);
  return finding;
}

}  // namespace

const Rule kDataloaderHeadOfLine{
    "dataloader-head-of-line",
    "One slow batch blocks batches that other workers have already finished, because the DataLoader returns "
    "batches in order.",
    "Training waits for a batch while a later one is ready, and the simulated replay without the fixed "
    "order is faster with the same workers. If no batch is ready, the finding is `dataloader-workers`; if "
    "workers are idle, `dataloader-prefetch`.",
    "Set `in_order=False` (PyTorch 2.6 or later; the order of batches then varies), or bucket samples by "
    "size, so that batches take equal time.",
    kThresholds,
    evaluate,
    attribute::Bottleneck::Input};

}  // namespace gpuwatch::advise
