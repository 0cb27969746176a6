// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "analyzer/advise/rule.h"
#include "analyzer/attribute/step_group.h"

namespace gpuwatch::advise {

extern const Rule kLoadImbalance;

namespace {

constexpr double kLeastWaiting = 0.10;
constexpr double kLeastOfComputing = 0.5;
constexpr double kLeastSpread = 0.10;
constexpr size_t kEnoughSteps = 20;

constexpr Threshold kThresholds[] = {
    {"waiting between the ranks, in the mean", kLeastWaiting, "of the step",
     "two ranks with equal work on one machine waited 3% to 9% for each other"},
    {"of the extra time of a step's slowest rank: computing", kLeastOfComputing, "of it",
     "else their data or their machine is uneven, not the work"},
    {"compute time of one rank varies from step to step by", kLeastSpread, "of its mean",
     "equal batches take equal time"},
    {"steps that all ranks recorded", double(kEnoughSteps), "steps", "few may be uneven by chance"},
};

std::optional<Finding> evaluate(const RuleInput& input) {
  if (!input.group || input.group->late) return std::nullopt;
  const attribute::StepGroup& group = *input.group;
  const attribute::Imbalance& found = group.imbalance;
  if (group.steps < kEnoughSteps || found.wait_ms < kLeastWaiting * group.step_ms ||
      found.of_computing < kLeastOfComputing || found.compute_spread < kLeastSpread)
    return std::nullopt;
  Finding finding = make_finding(kLoadImbalance, input, 1 - found.balanced_ms / group.step_ms);
  finding.title = fmt::format(
      "Load imbalance: {} ranks wait for each other by turns, {:.0f}% of each step, because their batches "
      "take unequal time",
      group.members.size(), 100 * found.wait_ms / group.step_ms);
  finding.evidence = {
      {"waiting between ranks", 100 * found.wait_ms / group.step_ms, "% of the step"},
      {"of the extra time of the slowest rank: computing", 100 * found.of_computing, "%"},
      {"compute time varies from step to step by", 100 * found.compute_spread, "% of its mean"},
      {"step with equal work on all ranks", found.balanced_ms, "ms"}};
  finding.fix.summary =
      "Give all ranks batches that take equal time: sort samples by length and deal them out, or fill "
      "batches up to a number of tokens or pixels instead of samples";
  finding.ceiling_speedup = found.balanced_ms > 0 ? group.step_ms / found.balanced_ms : 1;
  finding.bottleneck = attribute::Bottleneck::Communication;
  return finding;
}

}  // namespace

const Rule kLoadImbalance{
    "load-imbalance",
    "Ranks have unequal work: a different rank has the largest batch in each step, and all others wait.",
    "No one rank is late again and again (`straggler`), but ranks wait for each other. The one that comes "
    "last "
    "in a step computed longer than the others, and how long a rank computes varies from step to step.",
    "Balance batches over ranks: bucket by length and deal out, batches by tokens, pack sequences. An upper "
    "bound: equal work in each step.",
    kThresholds,
    evaluate,
    {attribute::Category::CommWaitPeer, attribute::Category::CommUnsplit, attribute::Category::CommHost}};

}  // namespace gpuwatch::advise
