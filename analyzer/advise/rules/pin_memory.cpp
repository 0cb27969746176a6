// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/copies.h"
#include "analyzer/advise/loader_words.h"
#include "analyzer/advise/location.h"
#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

extern const Rule kPinMemory;

namespace {

using attribute::Category;

constexpr double kLeastShare = 0.02;

constexpr Threshold kThresholds[] = {
    {"exposed copies from pageable memory and their staging", kLeastShare, "of the step",
     "half of the 5 % at which TraceLens lists copies: pinning is a one-word change"},
    kLeastGain,
};

void name_fix(Finding& finding, const RuleInput& input, const CopyFacts& copies) {
  const model::Loader* loader = input.configured_loader();
  std::string copy_at = call_location(input.run, input.process, copies.thread, copies.call);
  if (loader && loader->pin_memory != 1) {
    propose(finding, input, {LoaderOption::kPinMemory, true});
    finding.fix.summary += ", and copy with .to(device, non_blocking=True)";
    finding.fix.snippet += "; x = x.to(device, non_blocking=True)";
    if (!copy_at.empty())
      finding.evidence.push_back({"copied at " + copy_at, double(copies.calls), "copies"});
    return;
  }
  finding.fix.change = StreamChange{StreamEdit::kPinCopies, "pin_memory", "True"};
  finding.fix.location = copy_at;
  if (loader) {
    finding.fix.summary =
        "copy the tensors that the loader pinned, with non_blocking=True (these are others)";
    finding.fix.snippet = "x = x.pin_memory().to(device, non_blocking=True)";
  } else {
    finding.fix.summary = "pinned source buffers (cudaMallocHost) and cudaMemcpyAsync";
    finding.fix.snippet =
        "cudaMallocHost(&buffer, size); cudaMemcpyAsync(device, buffer, size, cudaMemcpyHostToDevice, "
        "stream);";
  }
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (!input.streams || !input.device) return std::nullopt;
  CopyFacts copies = copy_facts(input, CopySource::kPageable);
  if (copies.calls == 0) return std::nullopt;
  double lost =
      input.rank.share(Category::CopyStaging) + input.rank.share(Category::CopyH2D) * copies.time_share;
  if (lost < kLeastShare) return std::nullopt;

  predict::StreamReplayInput changed = *input.assumed_streams;
  double bandwidth = pinned_bandwidth(*input.device);
  predict::make_asynchronous(changed, copies.filter(), bandwidth, input.device->operations,
                             enqueue_cost_ns(changed));
  double expected = input.now_ms * predict::replay(changed).step_ms / input.assumed_step_ms;
  // Without a pinned copy in the recording nobody knows how much faster one is: a ceiling, not a prediction.
  const bool is_measured = bandwidth > 0;
  if (is_measured && input.now_ms < expected * kLeastSpeedup) return std::nullopt;

  Finding finding = make_finding(kPinMemory, input, lost);
  finding.title = "Batches are copied to the device from pageable memory: the host waits for each copy";
  finding.evidence = {
      share_evidence(input, Category::CopyStaging),
      share_evidence(input, Category::CopyH2D),
      {"copied from pageable memory a step", copies.bytes / double(input.rank.steps.size()) / 1e6, "MB"}};
  name_fix(finding, input, copies);
  if (is_measured) finding.prediction = stream_prediction(input, changed);
  if (finding.prediction)
    finding.prediction->assumptions.push_back(
        fmt::format("pinned copies run at {:.1f} GB/s, as recorded for others", bandwidth));
  if (!finding.prediction) finding.ceiling_speedup = 1 / (1 - std::min(lost, 0.99));
  return finding;
}

}  // namespace

const Rule kPinMemory{
    "pin-memory",
    "Batches go to the device from pageable memory: the driver stages them, the stream drains and the host "
    "is "
    "blocked meanwhile.",
    "Host-to-device copies with a pageable source whose staging or transfer is exposed (nothing else runs). "
    "Copies "
    "from pinned memory are `blocking-copy`, small ones to the host `sync-per-step`.",
    "`pin_memory=True` at the loader and `non_blocking=True` at the copy; outside PyTorch pinned buffers and "
    "`cudaMemcpyAsync`.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
