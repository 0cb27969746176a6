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
    {"share of the step spent waiting for data", kLeastInputShare, "of the step",
     "uneven batches cost little each; below it nothing can be gained"},
    kLeastGain,
    {"prefetch_factor", kMostAhead, "batches a worker", "every batch ahead is held in shared memory"},
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
  finding.title = "Batches take unequal time and too few are made ahead";
  finding.evidence = {share_evidence(input, attribute::Category::InputNoPrefetch),
                      share_evidence(input, attribute::Category::InputHeadOfLine),
                      {"spread of the batch times", 100 * batch_variation(*input.loader), "% of their mean"}};
  propose(finding, input, {LoaderOption::kPrefetchFactor, setting.prefetch_factor});
  finding.prediction = loader_prediction(input, *input.loader, input.loader_check, setting);
  if (!finding.prediction) finding.ceiling_speedup = now / best * (1 + std::abs(input.loader_check.error()));
  return finding;
}

}  // namespace

const Rule kDataloaderPrefetch{
    "dataloader-prefetch",
    "The buffer between workers and training is too short for batches that take unequal time: workers stand "
    "idle, "
    "then training waits.",
    "Data waits while workers have nothing asked of them, batch times that vary, and a replay with a longer "
    "buffer "
    "that is faster with the same workers.",
    "`prefetch_factor=N` at the loader's line, the smallest within 1 % of the best predicted one.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
