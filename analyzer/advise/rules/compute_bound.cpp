// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

extern const Rule kComputeBound;

namespace {

using attribute::Category;

constexpr double kLeastCompute = 0.90;

constexpr Threshold kThresholds[] = {
    {"time with at least one kernel running", kLeastCompute, "of the step",
     "TraceML calls this compute-bound, and MLPerf Storage asks it of a good input pipeline"},
};

// The kernel with the largest share of all kernel time, and that share.
std::pair<std::string, double> top_kernel(const RuleInput& input) {
  std::map<uint32_t, double> time;
  double all = 0;
  for (const model::DeviceOp& op : input.device->operations) {
    if (op.kind != trace::RecordKind::Kernel || op.kernel >= input.run.kernels.size()) continue;
    time[op.kernel] += double(op.end - op.begin);
    all += double(op.end - op.begin);
  }
  auto most = std::max_element(time.begin(), time.end(),
                               [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == time.end() || all <= 0) return {"", 0};
  return {input.run.kernels[most->first].name, most->second / all};
}

std::optional<Finding> evaluate(const RuleInput& input) {
  double compute = input.rank.share(Category::Compute);
  if (!input.device || !input.rank.device_observed || compute < kLeastCompute) return std::nullopt;
  Finding finding = make_finding(kComputeBound, input, 0);
  finding.severity = Severity::kInfo;
  finding.title = fmt::format("Compute: the GPU is busy {:.0f}% of each step, nothing to gain on the host",
                              100 * compute);
  finding.evidence = {{"GPU busy", 100 * compute, "% of the step"},
                      {"time with a kernel running", compute * input.rank.mean_step_ms(), "ms a step"}};
  auto [name, share] = top_kernel(input);
  if (!name.empty()) finding.evidence.push_back({"kernel " + name, 100 * share, "% of all kernel time"});
  finding.fix.summary = "Try lower precision, torch.compile, or a faster GPU";
  finding.ceiling_speedup = 1 / compute;
  return finding;
}

}  // namespace

const Rule kComputeBound{
    "compute-bound",
    "The GPU computes almost all of the time. Faster data loading or host code gains nothing.",
    "At least one kernel runs during 90% of the step.",
    "Make the GPU work faster: lower precision, kernel fusion (`torch.compile`), or faster or more GPUs.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
