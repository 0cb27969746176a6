// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/kernel_gains.h"
#include "analyzer/advise/remedy_words.h"
#include "analyzer/advise/rule.h"
#include "analyzer/attribute/device_work.h"

namespace gpuwatch::advise {

extern const Rule kComputeBound;

namespace {

using attribute::Category;

constexpr double kLeastDouble = 0.10;
constexpr size_t kMostNamed = 3;  // parts in the proposal; the evidence has all

constexpr Threshold kThresholds[] = {
    {"time with at least one kernel running", kGpuIsTheLimit, "of the step",
     "TraceML calls this compute-bound, and MLPerf Storage asks it of a good input pipeline"},
    {"kernels that one change concerns", kLeastKernelShare, "of the step",
     "XProf's lower band: without them a step gets up to 1.05x faster"},
    {"FP64 matmuls, to be a complaint", kLeastDouble, "of the step",
     "models seldom need them, and most GPUs compute them at 1/32 or 1/64 of the FP32 rate"},
};

void add_classes(Finding& finding, const RuleInput& input, const attribute::DeviceWork& work) {
  const double wall = double(std::max<model::Ns>(1, input.rank.wall_ns));
  for (const attribute::ClassTime& of_class : work.classes) {
    const double share = double(of_class.time.ns) / wall;
    if (share >= kLeastKernelShare)
      finding.evidence.push_back(
          {std::string(model::info(of_class.kernel_class).words), 100 * share, "% of the step"});
  }
  if (!work.kernels.empty() && work.ns > 0)
    finding.evidence.push_back({"kernel " + model::short_kernel_name(work.kernels.front().name),
                                100 * double(work.kernels.front().ns) / double(work.ns),
                                "% of all kernel time"});
}

void add_queue(Finding& finding, const RuleInput& input) {
  const auto queue = attribute::launch_queue(input.run, input.rank);
  if (!queue) return;
  finding.evidence.push_back({"median time from launch to start", queue->median_ns / 1e6, "ms"});
  finding.evidence.push_back({"median launch queue", queue->median_depth, "kernels"});
}

void add_gains(Finding& finding, const KernelGains& gains) {
  for (const KernelGain& gain : gains.parts) {
    finding.evidence.push_back({gain.what, 100 * gain.share, "% of the step"});
    if (gain.bound)
      finding.evidence.push_back(
          {fmt::format("upper bound of the gain ({}: {})", gain.what, gain.reason), *gain.bound, "x"});
  }
  finding.ceiling_speedup = gains.bound;
}

// "use torch.compile (kernels in a row that could be one: 31% of the step, up to 1.40x)"
std::string words_of(const KernelGain& gain) {
  const std::string bound = gain.bound ? fmt::format(", up to {:.2f}x", *gain.bound) : "";
  return fmt::format("{} ({}: {:.0f}% of the step{})", gain.change, gain.what, 100 * gain.share, bound);
}

std::string proposal(const KernelGains& gains, bool is_torch) {
  if (gains.parts.empty())
    return is_torch ? "Try lower precision, torch.compile, or a faster GPU"
                    : "Try lower precision, kernels that do more at once, or a faster GPU";
  std::string words;
  for (size_t i = 0; i < std::min(kMostNamed, gains.parts.size()); ++i)
    words += (i > 0 ? "; " : "") + words_of(gains.parts[i]);
  words.front() = char(words.front() - 'a' + 'A');
  return words;
}

void complain_of_double(Finding& finding, const RuleInput& input, const KernelGains& gains) {
  finding.lost_share = gains.double_share;
  finding.severity = make_finding(kComputeBound, input, gains.double_share).severity;
  finding.title = fmt::format("Compute: FP64 matmuls take {:.0f}% of each step", 100 * gains.double_share);
  finding.fix.change = NamedChange{"dtype", "float32"};
  if (!finding.ceiling_speedup) finding.ceiling_speedup = gains.parts.front().bound;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  const double compute = input.rank.share(Category::Compute);
  if (!input.device || !input.rank.device_observed || compute < kGpuIsTheLimit) return std::nullopt;
  Finding finding = make_finding(kComputeBound, input, 0);
  finding.severity = Severity::kInfo;
  finding.title = fmt::format("Compute: the GPU is busy {:.0f}% of each step, nothing to gain on the host",
                              100 * compute);
  finding.evidence = {{"GPU busy", 100 * compute, "% of the step"},
                      {"time with a kernel running", compute * input.rank.mean_step_ms(), "ms a step"}};
  const KernelGains gains = kernel_gains(input);
  add_classes(finding, input, attribute::device_work(input.run, input.rank));
  add_queue(finding, input);
  add_gains(finding, gains);
  finding.fix.summary = proposal(gains, speaks_torch(input.process));
  if (gains.double_share >= kLeastDouble) complain_of_double(finding, input, gains);
  return finding;
}

}  // namespace

const Rule kComputeBound{
    "compute-bound",
    "The GPU computes almost all of the time. Faster data loading or host code gains nothing.",
    "At least one kernel runs during 90% of the step. What kernels do is known from their names "
    "(`gpuwatch analyze --kernels` lists classes and kernels): matmuls and their precision, softmax between "
    "two "
    "matmuls as attention that is not fused, runs of pointwise, normalization and reduction kernels, layout "
    "transposes, optimizers that are not fused, copies within the GPU. Only time in which no other work ran "
    "on the "
    "GPU counts for an upper bound. Attention has none: how much faster its other form is does not follow "
    "from a trace. FP64 matmuls are a "
    "complaint.",
    "Make the GPU work faster, largest bound first: lower precision, `torch.compile` for kernels in a row, "
    "`scaled_dot_product_attention`, `memory_format=torch.channels_last`, `fused=True` in the optimizer. "
    "Else faster "
    "or more GPUs.",
    kThresholds,
    evaluate,
    {attribute::Category::Compute}};

}  // namespace gpuwatch::advise
