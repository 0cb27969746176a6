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
    {"share of the step with a kernel running", kLeastCompute, "of the step",
     "the share that TraceML calls compute bound and MLPerf Storage asks of a good input pipeline"},
};

// The kernel that takes most device time within the recorded steps, and its share.
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
  finding.title = "The device is the limit: it computes almost all of the time";
  finding.evidence = {{"computing", 100 * compute, "% of the step"}};
  auto [name, share] = top_kernel(input);
  if (!name.empty()) finding.evidence.push_back({"kernel " + name, 100 * share, "% of the kernel time"});
  finding.fix.summary = "on the host: nothing; lower precision, torch.compile, a faster GPU or more of them";
  finding.ceiling_speedup = 1 / compute;
  return finding;
}

}  // namespace

const Rule kComputeBound{
    "compute-bound",
    "Nothing to gain on the host: the device computes almost all of the time.",
    "At least one kernel runs for 90 % of the step.",
    "Work on the kernels themselves: precision, fusion (`torch.compile`), or faster or more GPUs.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
