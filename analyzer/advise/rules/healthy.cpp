// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

extern const Rule kHealthy;

namespace {

using attribute::Bottleneck;
using attribute::Category;
using attribute::Group;

constexpr double kMostLoss = 0.05;

constexpr Threshold kThresholds[] = {
    {"input, host and copies, each", kMostLoss, "of the step",
     "the lower of the two bands (5 and 20 %) that XProf and TensorBoard's profiler share"},
};

std::optional<Finding> evaluate(const RuleInput& input) {
  const attribute::RankAttribution& rank = input.rank;
  const double hidden = rank.share(Bottleneck::Unobserved) + rank.share(Category::Unknown);
  const double losses[] = {rank.share(Bottleneck::Input), rank.share(Bottleneck::Host),
                           rank.share(Bottleneck::Copy), rank.share(Bottleneck::Communication), hidden};
  if (*std::ranges::max_element(losses) >= kMostLoss) return std::nullopt;

  Finding finding = make_finding(kHealthy, input, 0);
  finding.severity = Severity::kInfo;
  finding.title = "Nothing in input or host worth changing";
  finding.evidence = {{"computing", 100 * rank.share(Category::Compute), "% of the step"},
                      {"waiting for data", 100 * rank.share(Bottleneck::Input), "% of the step"},
                      {"copies", 100 * rank.share(Bottleneck::Copy), "% of the step"},
                      {"host late", 100 * rank.share(Bottleneck::Host), "% of the step"}};
  finding.fix.summary = "nothing";
  double busy = rank.share(Group::DeviceBusy);
  finding.ceiling_speedup = busy > 0 ? 1 / busy : 1;
  return finding;
}

}  // namespace

const Rule kHealthy{"healthy",
                    "Nothing is wrong: input, host and copies each take less than their threshold.",
                    "All shares are below 5 % of the step and no other rule has a complaint.",
                    "Nothing to change; the ceiling says what a perfect input and host would still gain.",
                    kThresholds,
                    evaluate};

}  // namespace gpuwatch::advise
