// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/input_seen.h"
#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

extern const Rule kHealthy;

namespace {

using attribute::Bottleneck;
using attribute::Category;
using attribute::Group;

constexpr double kMostLoss = 0.05;

constexpr Threshold kThresholds[] = {
    {"data stalls, host overhead, exposed copies, exposed communication, unobserved time, each", kMostLoss,
     "of the step", "the lower of the two bands (5% and 20%) that XProf and TensorBoard's profiler share"},
};

std::optional<Finding> evaluate(const RuleInput& input) {
  const attribute::RankAttribution& rank = input.rank;
  if (!is_input_seen(input.process, rank)) return std::nullopt;
  if (const auto pipeline = pipeline_on_cores(input.run, rank); pipeline && !pipeline->share)
    return std::nullopt;  // what it takes from training is not known
  const double unobserved = rank.share(Bottleneck::Unobserved) + rank.share(Category::Unknown);
  const double losses[] = {rank.share(Bottleneck::Input), rank.share(Bottleneck::Host),
                           rank.share(Bottleneck::Copy), rank.share(Bottleneck::Communication), unobserved};
  if (*std::ranges::max_element(losses) >= kMostLoss) return std::nullopt;

  Finding finding = make_finding(kHealthy, input, 0);
  finding.severity = Severity::kInfo;
  const double busy = rank.share(Group::DeviceBusy);
  finding.ceiling_speedup = busy > 0 ? (1 - rank.share(Bottleneck::Machine)) / busy : 1;
  finding.title =
      fmt::format("Healthy: nothing to gain in data loading, copies or on the host (up to {:.2f}x)",
                  *finding.ceiling_speedup);
  finding.evidence = {{"compute", 100 * rank.share(Category::Compute), "% of the step"},
                      {"data stall", 100 * rank.share(Bottleneck::Input), "% of the step"},
                      {"exposed copies", 100 * rank.share(Bottleneck::Copy), "% of the step"},
                      {"host overhead", 100 * rank.share(Bottleneck::Host), "% of the step"}};
  finding.fix.summary = "Change nothing";
  return finding;
}

}  // namespace

const Rule kHealthy{
    "healthy",
    "Nothing is wrong: data stalls, host overhead and exposed copies each stay below their threshold.",
    "All shares are below 5% of the step, and no other rule has a complaint.",
    "Nothing to change. The upper bound says what perfect data loading and a perfect host would still gain.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
