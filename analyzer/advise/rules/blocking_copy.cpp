// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/copies.h"
#include "analyzer/advise/location.h"
#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

extern const Rule kBlockingCopy;

namespace {

using attribute::Category;

constexpr double kLeastShare = 0.05;

constexpr Threshold kThresholds[] = {
    {"exposed copies from pinned memory", kLeastShare, "of the step",
     "the share from which TraceLens lists copies"},
    kLeastGain,
};

void name_fix(Finding& finding, const RuleInput& input, const CopyFacts& copies) {
  finding.fix.change = StreamChange{StreamEdit::kMoveToOwnStream, "copy stream", ""};
  finding.fix.summary = "Copy the next batch on a separate CUDA stream while the GPU computes this one";
  // record_stream(): else PyTorch's allocator may reuse the memory of next_x too early.
  finding.fix.snippet =
      input.process.facts.contains("torch")
          ? "with torch.cuda.stream(copy_stream): next_x = x.to(device, non_blocking=True)  # before use: "
            "torch.cuda.current_stream().wait_stream(copy_stream); "
            "next_x.record_stream(torch.cuda.current_stream())"
          : "cudaMemcpyAsync(next_x, x, size, cudaMemcpyHostToDevice, copy_stream); "
            "cudaEventRecord(copied, copy_stream); cudaStreamWaitEvent(compute_stream, copied);";
  finding.fix.location = call_location(input.run, input.process, copies.thread, copies.call);
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (!input.streams || !input.device) return std::nullopt;
  CopyFacts copies = copy_facts(input, CopySource::kPinned);
  double lost = input.rank.share(Category::CopyH2D) * copies.time_share;
  if (copies.calls == 0 || lost < kLeastShare) return std::nullopt;

  predict::StreamReplayInput changed = *input.assumed_streams;
  predict::make_asynchronous(changed, copies.filter(), 0, input.device->operations, enqueue_cost_ns(changed));
  predict::move_to_own_stream(changed, copies.filter());
  double expected = input.now_ms * predict::replay(changed).step_ms / input.assumed_step_ms;
  if (input.now_ms < expected * kLeastSpeedup) return std::nullopt;

  Finding finding = make_finding(kBlockingCopy, input, lost);
  const double steps = double(input.rank.steps.size()), copied_mb = copies.bytes / steps / 1e6;
  finding.title = fmt::format(
      "Exposed H2D copies: the GPU computes nothing for {:.0f}% of each step while {:.3g} MB are copied",
      100 * lost, copied_mb);
  finding.evidence = {share_evidence(input, Category::CopyH2D),
                      {"copied from pinned memory", copied_mb, "MB a step"},
                      {"copies from pinned memory", double(copies.calls) / steps, "a step"}};
  if (const double bandwidth = pinned_bandwidth(*input.device); bandwidth > 0)
    finding.evidence.insert(finding.evidence.begin() + 1, {"speed of pinned copies", bandwidth, "GB/s"});
  name_fix(finding, input, copies);
  finding.prediction = stream_prediction(input, changed);
  if (finding.prediction)
    finding.prediction->assumptions.emplace_back("copies and kernels do not slow each other down");
  else
    finding.ceiling_speedup = 1 / (1 - std::min(lost, 0.99));
  return finding;
}

}  // namespace

const Rule kBlockingCopy{
    "blocking-copy",
    "H2D copies from pinned memory run on the same stream as the kernels, or block the host. The GPU "
    "computes nothing during these copies.",
    "H2D copies with a pinned source are exposed: no kernel runs at the same time. Copies from pageable "
    "memory are reported as `pin-memory`.",
    "Copy the next batch on a separate CUDA stream while the GPU computes the current one.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
