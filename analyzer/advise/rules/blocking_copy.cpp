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
    {"exposed copies from pinned memory", kLeastShare, "of the step", "where TraceLens lists copies"},
    kLeastGain,
};

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
  finding.title = "The device waits for copies that could run beside the step before";
  finding.evidence = {share_evidence(input, Category::CopyH2D),
                      {"copied a step", copies.bytes / double(input.rank.steps.size()) / 1e6, "MB"}};
  finding.fix.change = StreamChange{StreamEdit::kMoveToOwnStream, "copy stream", ""};
  finding.fix.summary = "copy the next batch on a stream of its own while the device computes this one";
  finding.fix.snippet =
      "with torch.cuda.stream(copy_stream): next_x = x.to(device, non_blocking=True)  # then "
      "torch.cuda.current_stream().wait_stream(copy_stream)";
  finding.fix.location = call_location(input.run, input.process, copies.thread, copies.call);
  finding.prediction = stream_prediction(input, changed);
  if (finding.prediction)
    finding.prediction->assumptions.push_back("copy and kernels do not slow each other");
  else
    finding.ceiling_speedup = 1 / (1 - std::min(lost, 0.99));
  return finding;
}

}  // namespace

const Rule kBlockingCopy{
    "blocking-copy",
    "Copies from pinned memory run on the stream that computes, or block the host: nothing computes "
    "meanwhile.",
    "Exposed host-to-device copies with a pinned source. Pageable sources are `pin-memory`.",
    "A copy stream that brings the next batch while this one is computed.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
