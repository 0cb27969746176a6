// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/copies.h"
#include "analyzer/advise/location.h"
#include "analyzer/advise/remedy_words.h"
#include "analyzer/advise/rule.h"
#include "analyzer/model/backward_thread.h"

namespace gpuwatch::advise {

extern const Rule kBlockingCopy;

namespace {

using attribute::Category;

constexpr double kLeastShare = 0.05;
constexpr double kAlike = 0.1;

constexpr Threshold kThresholds[] = {
    {"exposed copies from or to pinned memory, of one direction", kLeastShare, "of the step",
     "the share from which TraceLens lists copies"},
    {"difference between what is copied to the host and what the backward pass copies back", kAlike,
     "of the bytes", "of the same tensors; a loss is read as well"},
    kLeastGain,
};

// A step whose copies of 101 MB take 1.82 ms alone took 2.08 ms when they ran next to kernels, and nothing
// else in it took as long (one H200, PCIe 5).
constexpr double kBesideKernels = 1.15;

// Copies to the device bring what the next kernel needs, those to the host what nobody on the device needs.
struct Direction {
  CopyKind kind;
  Category exposed;
  const char* name;
  void (*move)(predict::StreamReplayInput&, const predict::EventFilter&);
  // The next batch's copies do not wait for this batch's results.
  bool is_ahead;
  const char *summary, *torch_snippet, *cuda_snippet;
};
constexpr Direction kDirections[] = {
    {CopyKind::CopyH2D, Category::CopyH2D, "H2D", predict::move_to_own_stream, true,
     "Copy the next batch on a separate CUDA stream while the GPU computes this one",
     // record_stream(): else PyTorch's allocator may reuse the memory of next_x too early.
     "with torch.cuda.stream(copy_stream): next_x = x.to(device, non_blocking=True)  # before use: "
     "torch.cuda.current_stream().wait_stream(copy_stream); "
     "next_x.record_stream(torch.cuda.current_stream())",
     "cudaMemcpyAsync(next_x, x, size, cudaMemcpyHostToDevice, copy_stream); "
     "cudaEventRecord(copied, copy_stream); cudaStreamWaitEvent(compute_stream, copied);"},
    {CopyKind::CopyD2H, Category::CopyD2H, "D2H", predict::fetch_on_own_stream, false,
     "Copy to the host on a separate CUDA stream while the GPU computes the next batch",
     "copy_stream.wait_stream(torch.cuda.current_stream()); y.record_stream(copy_stream)  # then: with "
     "torch.cuda.stream(copy_stream): host.copy_(y, non_blocking=True)  # host in pinned memory",
     "cudaEventRecord(computed, compute_stream); cudaStreamWaitEvent(copy_stream, computed); "
     "cudaMemcpyAsync(host, y, size, cudaMemcpyDeviceToHost, copy_stream);  // y: two buffers"},
};

void name_fix(Finding& finding, const RuleInput& input, const Direction& direction, const CopyFacts& copies) {
  finding.fix.change = StreamChange{StreamEdit::kMoveToOwnStream, "copy stream", ""};
  finding.fix.summary = direction.summary;
  finding.fix.snippet = speaks_torch(input.process) ? direction.torch_snippet : direction.cuda_snippet;
  finding.fix.location = call_location(input.run, input.process, copies.thread, copies.call);
}

// Copies that ran alone while they were recorded share the memory with kernels afterwards.
void allow_slower_copies(predict::Prediction& prediction, const RuleInput& input,
                         predict::StreamReplayInput changed, const predict::EventFilter& copies) {
  for (const predict::HostEvent& event : changed.events) {
    if (!copies(event)) continue;
    for (uint32_t i = event.first_op; i < event.first_op + event.op_count; ++i)
      changed.ops[i].duration_ns *= kBesideKernels;
  }
  const double slow_ms = input.now_ms * predict::replay(changed).step_ms / input.assumed_step_ms;
  prediction.value.high =
      std::clamp(slow_ms, prediction.value.high, std::max(prediction.value.high, input.now_ms));
  prediction.speedup.low = prediction.now / prediction.value.high;
  prediction.assumptions.push_back(fmt::format(
      "copies take up to {:.0f}% longer next to kernels than alone, and kernels as long as before",
      100 * (kBesideKernels - 1)));
}

std::optional<Finding> evaluate_direction(const RuleInput& input, const Direction& direction) {
  CopyFacts copies = copy_facts(input, CopySource::kPinned, direction.kind);
  double lost = input.rank.share(direction.exposed) * copies.time_share;
  if (copies.calls == 0 || lost < kLeastShare) return std::nullopt;

  predict::StreamReplayInput changed = *input.assumed_streams;
  predict::make_asynchronous(changed, copies.filter(), 0, input.device->operations, enqueue_cost_ns(changed));
  direction.move(changed, copies.filter());
  if (direction.is_ahead) predict::copy_before_synchronizations(changed, copies.filter());
  double expected = input.now_ms * predict::replay(changed).step_ms / input.assumed_step_ms;
  if (input.now_ms < expected * kLeastSpeedup) return std::nullopt;

  const bool is_fetch = direction.kind == CopyKind::CopyD2H;
  Finding finding = make_finding(kBlockingCopy, input, lost);
  const double steps = double(input.rank.steps.size()), copied_mb = copies.bytes / steps / 1e6;
  finding.title = fmt::format(
      "Exposed {} copies: the GPU computes nothing for {:.0f}% of each step while {:.3g} MB are copied",
      direction.name, 100 * lost, copied_mb);
  finding.evidence = {
      share_evidence(input, direction.exposed),
      {is_fetch ? "copied to pinned memory" : "copied from pinned memory", copied_mb, "MB a step"},
      {is_fetch ? "copies to pinned memory" : "copies from pinned memory", double(copies.calls) / steps,
       "a step"}};
  if (const double bandwidth = pinned_bandwidth(*input.device, direction.kind); bandwidth > 0)
    finding.evidence.insert(finding.evidence.begin() + 1, {"speed of pinned copies", bandwidth, "GB/s"});
  name_fix(finding, input, direction, copies);
  settle_with(finding, input, std::move(changed), lost);
  if (finding.prediction) allow_slower_copies(*finding.prediction, input, *finding.timeline, copies.filter());
  return finding;
}

// What the backward pass copies to the device, the forward pass has copied from it: activations that wait in
// the host's memory (save_on_cpu, offloading), and no next batch.
struct Offload {
  CopyFacts saved, fetched;
};
std::optional<Offload> offload(const RuleInput& input) {
  const uint32_t training = input.process.training_thread;
  Offload result;
  result.fetched = copy_facts(input, [&](const predict::HostEvent& event, const model::DeviceOp&) {
    return model::runs_backward(input.process, event.thread);
  });
  result.saved = copy_facts(
      input,
      [&](const predict::HostEvent& event, const model::DeviceOp&) { return event.thread == training; },
      CopyKind::CopyD2H);
  const auto [less, more] = std::minmax(result.saved.bytes, result.fetched.bytes);
  if (less <= 0 || less < more * (1 - kAlike)) return std::nullopt;
  return result;
}

std::optional<Finding> evaluate_offload(const RuleInput& input) {
  const auto copies = offload(input);
  if (!copies) return std::nullopt;
  const double lost = input.rank.share(Category::CopyD2H) * copies->saved.time_share +
                      input.rank.share(Category::CopyH2D) * copies->fetched.time_share;
  if (lost < kLeastShare) return std::nullopt;
  predict::StreamReplayInput changed = *input.assumed_streams;
  predict::drop_with_operations(changed, copies->saved.filter());
  predict::drop_with_operations(changed, copies->fetched.filter());
  if (input.assumed_step_ms < predict::replay(changed).step_ms * kLeastSpeedup) return std::nullopt;

  Finding finding = make_finding(kBlockingCopy, input, lost);
  const double steps = double(input.rank.steps.size()), saved_mb = copies->saved.bytes / steps / 1e6;
  finding.title = fmt::format(
      "Exposed copies: {:.3g} MB a step go to the host and back for the backward pass, and the GPU computes "
      "nothing for {:.0f}% of each step meanwhile",
      saved_mb, 100 * lost);
  finding.evidence = {share_evidence(input, Category::CopyD2H),
                      share_evidence(input, Category::CopyH2D),
                      {"copied to the host", saved_mb, "MB a step"},
                      {"copied back by the backward pass", copies->fetched.bytes / steps / 1e6, "MB a step"}};
  finding.fix.change = StreamChange{StreamEdit::kDropCalls, "offloading", "less"};
  finding.fix.summary =
      "Keep on the GPU what the backward pass needs, as far as its memory has room (without save_on_cpu or "
      "offloading, or of fewer layers), or compute it again (torch.utils.checkpoint)";
  finding.fix.location = call_location(input.run, input.process, copies->saved.thread, copies->saved.call);
  // A host that waits for a copy after each layer is slower at what it does between them: with none, a step
  // that a replay made 24 ms took 11.
  finding.ceiling_speedup = ceiling_without(input, lost, changed);
  return finding;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (!input.streams || !input.device) return std::nullopt;
  if (auto finding = evaluate_offload(input)) return finding;
  for (const Direction& direction : kDirections)
    if (auto finding = evaluate_direction(input, direction)) return finding;
  return std::nullopt;
}

}  // namespace

const Rule kBlockingCopy{
    "blocking-copy",
    "Copies between pinned memory and the GPU run on the same stream as the kernels, or block the host. The "
    "GPU computes nothing during these copies.",
    "H2D copies with a pinned source, or D2H copies with a pinned destination, are exposed: no kernel runs "
    "at "
    "the same time. Copies from pageable memory are reported as `pin-memory`, those to it as "
    "`sync-per-step`.",
    "Copy the next batch, or the last results, on a separate CUDA stream while the GPU computes. Activations "
    "that the forward pass copies to the host and the backward pass copies back: keep them on the GPU, or "
    "compute them again.",
    kThresholds,
    evaluate,
    attribute::CategorySet(attribute::Bottleneck::Copy) | attribute::CategorySet{attribute::Category::Sync}};

}  // namespace gpuwatch::advise
