// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/advise/loader_words.h"
#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

extern const Rule kDataloaderPrefetch;

namespace {

constexpr double kLeastInputShare = 0.02;
constexpr double kWithinBest = 1.01;
constexpr int kMostAhead = 16;

constexpr Threshold kThresholds[] = {
    {"data stall", kLeastInputShare, "of the step",
     "batches of uneven cost lose little each, and below it there is nothing to gain"},
    kLeastGain,
    {"prefetch_factor", kMostAhead, "batches a worker", "every prefetched batch takes shared memory"},
};

std::optional<Finding> evaluate(const RuleInput& input) {
  predict::LoaderSetting setting = input.loader_setting();
  double lost = input.rank.steady_input_share();
  if (!input.loader || setting.workers < 1 || lost < kLeastInputShare) return std::nullopt;
  int before = setting.prefetch_factor;
  if (before >= kMostAhead) return std::nullopt;
  double now = expected_step_ms(input, *input.loader, setting), best = 0;
  for (int round = 0; round < 2; ++round) {  // find the best, then the smallest close to it
    for (setting.prefetch_factor = before + 1; setting.prefetch_factor <= kMostAhead;
         setting.prefetch_factor = setting.prefetch_factor < 4 ? setting.prefetch_factor + 1
                                                               : setting.prefetch_factor * 2) {
      double ms = expected_step_ms(input, *input.loader, setting);
      if (round == 0 && (best == 0 || ms < best)) best = ms;
      if (round == 1 && ms <= best * kWithinBest) break;
    }
  }
  if (setting.prefetch_factor > kMostAhead || now < best * kLeastSpeedup) return std::nullopt;

  Finding finding = make_finding(kDataloaderPrefetch, input, std::min(lost, 1 - best / now));
  finding.title = fmt::format("Prefetching: prefetch_factor={} is too small for batches of uneven cost, {}",
                              before, stall_words(input, lost));
  finding.evidence = {{"data stall", 100 * lost, "% of the step"},
                      {"time of the slowest batch", slowest_batch(*input.loader), "times the mean"},
                      share_evidence(input, attribute::Category::InputNoPrefetch),
                      share_evidence(input, attribute::Category::InputHeadOfLine),
                      {"spread of batch times", 100 * batch_variation(*input.loader), "% of their mean"}};
  propose(finding, input, {LoaderOption::kPrefetchFactor, setting.prefetch_factor});
  finding.prediction = loader_prediction(input, *input.loader, input.loader_check, setting);
  if (!finding.prediction) finding.ceiling_speedup = now / best * (1 + std::abs(input.loader_check.error()));
  return finding;
}

}  // namespace

const Rule kDataloaderPrefetch{
    "dataloader-prefetch",
    "The prefetch buffer is too short for batches of uneven cost: workers are idle while it is full, and "
    "training waits once a slow batch has emptied it.",
    "Training waits for data although workers were idle before, batch times vary, and the simulated replay "
    "with a longer buffer is faster with the same workers.",
    "Set `prefetch_factor=N`. The report gives the smallest N within 1% of the best predicted one.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
