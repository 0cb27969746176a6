// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/copies.h"
#include "analyzer/advise/loader_words.h"
#include "analyzer/advise/location.h"
#include "analyzer/advise/remedy_words.h"
#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

extern const Rule kPinMemory;

namespace {

using attribute::Category;

constexpr double kLeastShare = 0.02;

constexpr Threshold kThresholds[] = {
    {"exposed copies from pageable memory, with their staging", kLeastShare, "of the step",
     "half of the 5% at which TraceLens lists copies, because pinning is a one-word change"},
    kFastestCopies,
    kWidestPrediction,
    kLeastGain,
};

void name_fix(Finding& finding, const RuleInput& input, const CopyFacts& copies) {
  const model::Loader* loader = input.configured_loader();
  std::string copy_at = call_location(input.run, input.process, copies.thread, copies.call);
  if (loader && loader->pin_memory != 1) {
    propose(finding, input, {LoaderOption::kPinMemory, true});
    finding.fix.summary += " and copy with .to(device, non_blocking=True)";
    // Before the comment that a framework's snippet may end with.
    std::string& snippet = finding.fix.snippet;
    snippet.insert(std::min(snippet.find("  #"), snippet.size()), "; x = x.to(device, non_blocking=True)");
    if (!copy_at.empty())
      finding.evidence.push_back({"copied at " + copy_at, double(copies.calls), "copies"});
    return;
  }
  finding.fix.change = StreamChange{StreamEdit::kPinCopies, "pin_memory", "True"};
  finding.fix.location = copy_at;
  if (loader) {
    finding.fix.summary =
        "Copy the batch as the loader pinned it; what stays the same, pin once before the loop. Copy both "
        "with "
        "non_blocking=True";
    finding.fix.snippet =
        "constant = constant.pin_memory()  # once, before the loop; then constant.to(device, "
        "non_blocking=True)";
  } else if (speaks_torch(input.process)) {
    finding.fix.summary =
        "Keep the tensors that each step copies in pinned memory, and copy them with non_blocking=True";
    finding.fix.snippet =
        "data = data.pin_memory()  # once; then x = data[batch].to(device, non_blocking=True)";
  } else {
    finding.fix.summary = "Copy from pinned buffers (cudaMallocHost) with cudaMemcpyAsync";
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

  const double bandwidth = pinned_bandwidth(*input.device);
  const auto pinned = [&](double bytes_per_ns) {
    predict::StreamReplayInput changed = *input.assumed_streams;
    predict::make_asynchronous(changed, copies.filter(), bytes_per_ns, input.device->operations,
                               enqueue_cost_ns(changed));
    return changed;
  };
  const double best_ms = predict::replay(pinned(bandwidth > 0 ? bandwidth : kFastestCopies.value)).step_ms;
  const bool is_replayed = input.stream_check.trust() != predict::Trust::kCeilingOnly;
  if (is_replayed && input.assumed_step_ms < best_ms * kLeastSpeedup) return std::nullopt;

  Finding finding = make_finding(kPinMemory, input, lost);
  const double mb_a_step = copies.bytes / double(input.rank.steps.size()) / 1e6;
  finding.title =
      fmt::format("Pageable H2D copies: {:.3g} MB a step block the host and cost {:.0f}% of each step",
                  mb_a_step, 100 * lost);
  finding.evidence = {share_evidence(input, Category::CopyStaging),
                      share_evidence(input, Category::CopyH2D),
                      {"copied from pageable memory", mb_a_step, "MB a step"}};
  name_fix(finding, input, copies);
  settle_at_speed(finding, input, CopyKind::CopyH2D, pinned, lost);
  if (finding.prediction && bandwidth > 0)
    finding.prediction->assumptions.push_back(
        fmt::format("pinned copies run at {:.1f} GB/s, like the recorded pinned copies", bandwidth));
  return finding;
}

}  // namespace

const Rule kPinMemory{
    "pin-memory",
    "Batches are copied to the GPU from pageable memory: the driver stages them and blocks the host, and the "
    "stream runs empty.",
    "H2D copies with a pageable source whose staging or transfer is exposed (no kernel runs meanwhile). "
    "Copies from pinned memory are `blocking-copy`, small D2H copies `sync-per-step`.",
    "`pin_memory=True` in the loader and `non_blocking=True` in the copy. Outside PyTorch: pinned buffers "
    "and `cudaMemcpyAsync`.",
    kThresholds,
    evaluate,
    attribute::CategorySet(attribute::Bottleneck::Copy) |
        attribute::CategorySet{attribute::Category::Sync, attribute::Category::InputPin}};

}  // namespace gpuwatch::advise
