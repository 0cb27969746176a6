// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

extern const Rule kHealthy;

namespace {

using attribute::Category;
using attribute::Group;

constexpr double kMostLoss = 0.05;

constexpr Threshold kThresholds[] = {
    {"input, host and copies, each", kMostLoss, "of the step",
     "the lower of the two bands (5 and 20 %) that XProf and TensorBoard's profiler share"},
};

std::optional<Finding> evaluate(const RuleInput& input) {
  const attribute::RankAttribution& rank = input.rank;
  double copies =
      rank.share(Category::CopyH2D) + rank.share(Category::CopyD2H) + rank.share(Category::CopyStaging);
  double host = rank.share(Group::Host) - rank.share(Category::CopyStaging);
  double hidden = rank.share(Category::DeviceUnobserved) + rank.share(Category::Unknown);
  if (std::max({rank.share(Group::Input), host, copies, hidden}) >= kMostLoss) return std::nullopt;

  Finding finding = make_finding(kHealthy, input, 0);
  finding.severity = Severity::kInfo;
  finding.title = "Nothing in input or host worth changing";
  finding.evidence = {{"computing", 100 * rank.share(Category::Compute), "% of the step"},
                      {"waiting for data", 100 * rank.share(Group::Input), "% of the step"},
                      {"copies", 100 * copies, "% of the step"},
                      {"host late", 100 * host, "% of the step"}};
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
