// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "analyzer/advise/communication.h"
#include "analyzer/advise/host_calls.h"
#include "analyzer/advise/location.h"
#include "analyzer/advise/remedy_words.h"
#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

extern const Rule kSyncEachMicrobatch;

namespace {

using attribute::Category;
using model::HostCall;
using model::Ns;

constexpr double kLeastShare = 0.05;
constexpr double kLeastOfBatches = 0.9;
constexpr size_t kLeastBatches = 20;

constexpr Threshold kThresholds[] = {
    {"communication after batches without an optimizer step", kLeastShare, "of the step",
     "XProf's lower band"},
    {"such batches with communication", kLeastOfBatches, "of them",
     "with no_sync() none of them has any, but one may be interrupted by a check of the loss"},
    {"such batches", double(kLeastBatches), "batches", "fewer may be a warm-up"},
    kLeastGain,
};

// The batches of the recorded steps after which no optimizer step comes: all but the last of each step.
class EarlyBatches {
 public:
  explicit EarlyBatches(const RuleInput& input) {
    const auto& thread = input.process.threads[input.process.training_thread];
    std::vector<Ns> nexts;
    for (const HostCall& call : thread.calls)
      if (call.op_class == trace::OpClass::LoaderNext && !call.failed()) nexts.push_back(call.begin);
    for (uint32_t step = 0; step < input.rank.steps.size(); ++step) {
      const model::Step& span = input.rank.steps[step].step;
      const auto first = std::ranges::lower_bound(nexts, span.begin),
                 last = std::ranges::lower_bound(nexts, span.end);
      steps_of_several_ += last - first >= 2;
      batches_ += size_t(last - first);
      for (auto next = first; last - next >= 2; ++next) early_.push_back({next[0], next[1], step});
    }
  }

  size_t count() const { return early_.size(); }
  size_t steps_of_several() const { return steps_of_several_; }
  size_t batches() const { return batches_; }

  // The batch that `time` of the host lies in; model::kNone: in none of them.
  uint32_t at(Ns time) const {
    const auto after = std::ranges::upper_bound(early_, time, {}, &Batch::begin);
    if (after == early_.begin() || time >= std::prev(after)->end) return model::kNone;
    return uint32_t(std::prev(after) - early_.begin());
  }
  uint32_t step_of(uint32_t batch) const { return early_[batch].step; }

 private:
  struct Batch {
    Ns begin, end;
    uint32_t step;
  };
  std::vector<Batch> early_;
  size_t steps_of_several_ = 0, batches_ = 0;
};

struct EarlyCommunication {
  std::set<uint32_t> batches;   // that have some
  HostCalls waits;              // the host's, for other ranks
  std::vector<uint64_t> calls;  // that enqueue collectives: thread and index, ascending
  double device_ns = 0;         // of those collectives
};

uint64_t key(uint32_t thread, uint32_t call) {
  return uint64_t{thread} << 32 | call;
}

void add_waits(const RuleInput& input, const EarlyBatches& early, EarlyCommunication& found) {
  HostCalls& waits = found.waits;
  waits.ns_of_step.resize(input.rank.steps.size());
  double longest = 0;
  for (const attribute::Slice& slice : input.rank.slices) {
    if (slice.category != Category::CommHost) continue;
    const uint32_t batch = early.at(slice.begin);
    if (batch == model::kNone) continue;
    const double ns = double(slice.end - slice.begin);
    found.batches.insert(batch);
    waits.ns_of_step[early.step_of(batch)] += ns;
    waits.total_ns += ns;
    ++waits.calls;
    if (slice.thread != input.process.training_thread) continue;
    waits.members.push_back(slice.call);
    if (ns > longest) waits.call = slice.call;
    longest = std::max(longest, ns);
  }
}

void add_collectives(const RuleInput& input, const EarlyBatches& early, EarlyCommunication& found) {
  if (!input.device) return;
  for (const model::DeviceOp& op : input.device->operations) {
    if (op.kind != trace::RecordKind::Kernel || op.launch_call == model::kNone ||
        !input.run.kernels[op.kernel].is_communication)
      continue;
    const uint32_t batch = early.at(input.process.threads[op.launch_thread].calls[op.launch_call].begin);
    if (batch == model::kNone) continue;
    found.batches.insert(batch);
    found.calls.push_back(key(op.launch_thread, op.launch_call));
    found.device_ns += double(op.end - op.begin);
  }
  std::ranges::sort(found.calls);
}

// What waits for later ranks may stay, after the step's last batch.
void settle_on_host(Finding& finding, const RuleInput& input, const HostCalls& waits) {
  const double kept = waiting_for_ranks(input) / input.rank.share(attribute::Bottleneck::Communication);
  settle_without(finding, input, waits, kept);
  const auto best = prediction_without(input, waits);
  if (finding.prediction && best) finding.prediction = predict::between(*best, *finding.prediction);
  if (finding.prediction)
    finding.prediction->assumptions.emplace_back(
        "computing takes as long as before: the threads that exchange gradients also took cores from it, so "
        "more "
        "may be gained");
  if (!finding.prediction) finding.ceiling_speedup = 1 / (1 - waits.share(input));
}

void settle(Finding& finding, const RuleInput& input, const EarlyCommunication& found, double share) {
  if (found.calls.empty() || !input.streams) return settle_on_host(finding, input, found.waits);
  predict::StreamReplayInput changed = *input.assumed_streams;
  predict::drop_with_operations(changed, [&](const predict::HostEvent& event) {
    return std::ranges::binary_search(found.calls, key(event.thread, event.call));
  });
  settle_with(finding, input, std::move(changed), share);
}

void name_fix(Finding& finding, const RuleInput& input, const EarlyCommunication& found, double batches) {
  finding.fix.change = NamedChange{"no_sync", "True"};
  finding.fix.location =
      call_location(input.run, input.process, input.process.training_thread, found.waits.call);
  if (!speaks_torch(input.process)) {
    finding.fix.summary = fmt::format(
        "Add up the gradients of the {:.0f} batches on each rank, and exchange them once a step", batches);
    return;
  }
  finding.fix.summary = fmt::format(
      "Exchange gradients once a step: compute all but the last of its {:.0f} batches in "
      "model.no_sync()",
      batches);
  finding.fix.snippet =
      "with contextlib.nullcontext() if is_last_batch else model.no_sync(): loss = ...; loss.backward()";
}

// The time that the step spends on it, as far as the steps show: exposed.
double share_of(const RuleInput& input, const EarlyCommunication& found) {
  if (found.calls.empty()) return found.waits.share(input);
  const double all = input.rank.share(attribute::Bottleneck::Communication);
  double ns = 0;
  for (const model::DeviceOp& op : input.device->operations)
    if (op.kind == trace::RecordKind::Kernel && input.run.kernels[op.kernel].is_communication)
      ns += double(op.end - op.begin);
  return ns > 0 ? all * found.device_ns / ns : 0;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (input.rank.share(attribute::Bottleneck::Communication) < kLeastShare ||
      input.process.training_thread == model::kNone)
    return std::nullopt;
  const EarlyBatches early(input);
  if (early.count() < kLeastBatches || 2 * early.steps_of_several() < input.rank.steps.size())
    return std::nullopt;
  EarlyCommunication found;
  add_waits(input, early, found);
  add_collectives(input, early, found);
  const double of_batches = double(found.batches.size()) / double(early.count());
  const double share = share_of(input, found);
  if (of_batches < kLeastOfBatches || share < kLeastShare) return std::nullopt;

  Finding finding = make_finding(kSyncEachMicrobatch, input, share);
  const double batches = double(early.batches()) / double(input.rank.steps.size());
  finding.title = fmt::format(
      "Gradient accumulation: ranks exchange gradients after each of {:.0f} batches of a step, {:.0f}% of it "
      "for nothing",
      batches, 100 * share);
  finding.evidence = {{"communication before the step's last batch", 100 * share, "% of the step"},
                      {"earlier batches with communication", 100 * of_batches, "% of them"},
                      {"batches", batches, "a step"}};
  name_fix(finding, input, found, batches);
  settle(finding, input, found, share);
  return finding;
}

}  // namespace

const Rule kSyncEachMicrobatch{
    "sync-each-microbatch",
    "Gradients are accumulated over several batches, and ranks exchange them after each batch instead of "
    "once "
    "a step.",
    "A step takes several batches from its loader, and ranks communicate after those too that no optimizer "
    "step follows: collectives on the GPU, or the host waiting for other ranks (Gloo, MPI). What it waits "
    "for "
    "a late rank stays. Sharded models (FSDP) communicate in each batch for their parameters, too: for them "
    "the gain is less.",
    "Compute all but the last batch of a step in `model.no_sync()` (DistributedDataParallel, FSDP), which "
    "Accelerate's `accumulate()` and Lightning's `accumulate_grad_batches` do. Memory for FSDP: whole "
    "gradients.",
    kThresholds,
    evaluate,
    attribute::Bottleneck::Communication};

}  // namespace gpuwatch::advise
