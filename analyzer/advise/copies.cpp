// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/copies.h"

#include "analyzer/advise/ceiling.h"
#include "analyzer/model/quantile.h"

#include <fmt/format.h>

#include <algorithm>

#include "libinject/trace/layout.h"

namespace gpuwatch::advise {
namespace {

constexpr double kDefaultEnqueueNs = 5e3;  // a kernel launch takes 3 to 8 us on common hosts
// Host time between a copy and the synchronization that belongs to it, at most.
constexpr double kDirectlyAfterNs = 20e3;
// Smaller copies are mostly latency and say nothing about bandwidth; Nsight Systems ignores them too.
constexpr uint64_t kLeastBytes = 64 * 1024;

uint64_t key(const predict::HostEvent& event) {
  return uint64_t{event.thread} << 32 | event.call;
}

bool uses(const model::DeviceOp& op, CopySource source) {
  const bool to_device = op.kind == CopyKind::CopyH2D;
  const bool pageable = op.flags & (to_device ? trace::kSourcePageable : trace::kDestinationPageable);
  return pageable == (source == CopySource::kPageable);
}

}  // namespace

predict::EventFilter CopyFacts::filter() const {
  return [this](const predict::HostEvent& event) {
    return std::binary_search(members.begin(), members.end(), key(event));
  };
}

CopyFacts copy_facts(const RuleInput& input, CopySource source, CopyKind kind) {
  return copy_facts(
      input, [source](const predict::HostEvent&, const model::DeviceOp& op) { return uses(op, source); },
      kind);
}

CopyFacts copy_facts(const RuleInput& input, const CopyFilter& which, CopyKind kind) {
  CopyFacts facts;
  double all_ns = 0, own_ns = 0, longest = 0;
  bool follows_copy = false;
  for (const predict::HostEvent& event : input.streams->events) {
    bool is_copy = false;
    for (uint32_t i = 0; i < event.op_count; ++i) {
      const predict::StreamOp& op = input.streams->ops[event.first_op + i];
      const model::DeviceOp& recorded = input.device->operations[op.device_op];
      if (recorded.kind != kind) continue;
      all_ns += op.duration_ns;
      if (!which(event, recorded)) continue;
      is_copy = true;
      own_ns += op.duration_ns;
      facts.bytes += double(recorded.bytes);
      if (op.duration_ns <= longest) continue;
      longest = op.duration_ns;
      facts.thread = event.thread;
      facts.call = event.call;
    }
    bool is_its_sync =
        follows_copy && event.role == predict::HostRole::kSync && event.gap_ns <= kDirectlyAfterNs;
    facts.calls += is_copy;
    if (is_copy || is_its_sync) facts.members.push_back(key(event));
    follows_copy = is_copy;
  }
  std::sort(facts.members.begin(), facts.members.end());
  if (all_ns > 0) facts.time_share = own_ns / all_ns;
  return facts;
}

double pinned_bandwidth(const model::Device& device, CopyKind kind) {
  double bytes = 0, ns = 0;
  for (const model::DeviceOp& op : device.operations) {
    if (op.kind != kind || !uses(op, CopySource::kPinned) || op.bytes < kLeastBytes) continue;
    bytes += double(op.bytes);
    ns += double(op.end - op.begin);
  }
  return ns > 0 ? bytes / ns : 0;
}

void settle_at_speed(Finding& finding, const RuleInput& input, CopyKind kind, const AtSpeed& changed,
                     double removed) {
  const double known = pinned_bandwidth(*input.device, kind);
  settle_with(finding, input, changed(known), removed);
  if (known > 0) return;
  predict::StreamReplayInput fastest = changed(kFastestCopies.value);
  const double fastest_ms = predict::replay(fastest).step_ms;
  const double slowest_ms = predict::replay(*finding.timeline).step_ms;
  if (finding.prediction && slowest_ms < fastest_ms * kLeastSpeedup) return;
  const auto best = stream_prediction(input, fastest);
  if (finding.prediction && best) finding.prediction = predict::between(*best, *finding.prediction);
  if (finding.prediction) {
    finding.prediction->assumptions.push_back(
        fmt::format("copies with pinned memory run at the speed of the recorded pageable ones to {:g} GB/s",
                    kFastestCopies.value));
    return;
  }
  finding.timeline.reset();
  const bool is_replayed = input.stream_check.trust() != predict::Trust::kCeilingOnly;
  if (is_replayed) removed = 1 - fastest_ms / input.assumed_step_ms;
  finding.ceiling_speedup = ceiling_without(input, removed, fastest);
}

double enqueue_cost_ns(const predict::StreamReplayInput& recording) {
  std::vector<double> costs;
  for (const predict::HostEvent& event : recording.events)
    if (event.op_class == trace::OpClass::Launch && event.role == predict::HostRole::kEnqueue)
      costs.push_back(event.cost_ns);
  if (costs.empty()) return kDefaultEnqueueNs;
  return model::median(std::move(costs));
}

}  // namespace gpuwatch::advise
