// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "analyzer/advise/ceiling.h"
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
constexpr double kLeastOfLast = 0.5;
constexpr size_t kLeastBatches = 20;

constexpr Threshold kThresholds[] = {
    {"communication after batches without an optimizer step", kLeastShare, "of the step",
     "XProf's lower band"},
    {"such batches with communication", kLeastOfBatches, "of them",
     "metrics that ranks exchange now and then are no gradients"},
    {"communication of such a batch, against that of a step's last one", kLeastOfLast, "of it",
     "batch normalization over ranks exchanges little next to the gradients"},
    {"such batches", double(kLeastBatches), "batches", "fewer may be a warm-up"},
    kLeastGain,
};

// The batches of the recorded steps that take several: the last of a step, and those before it, after which
// no optimizer step comes. Where one does (two networks, each with its batch), nothing is accumulated.
class Batches {
 public:
  explicit Batches(const RuleInput& input) {
    const auto& thread = input.process.threads[input.process.training_thread];
    std::vector<Ns> nexts, optimized;
    for (const HostCall& call : thread.calls) {
      if (call.op_class == trace::OpClass::LoaderNext && !call.failed()) nexts.push_back(call.begin);
      if (call.op_class == trace::OpClass::OptimizerStep) optimized.push_back(call.begin);
    }
    for (uint32_t step = 0; step < input.rank.steps.size(); ++step) {
      const model::Step& span = input.rank.steps[step].step;
      const auto first = std::ranges::lower_bound(nexts, span.begin),
                 last = std::ranges::lower_bound(nexts, span.end);
      a_step_ += double(last - first) / double(input.rank.steps.size());
      if (last - first < 2) continue;
      const auto optimizes = std::ranges::lower_bound(optimized, *first);
      if (optimizes != optimized.end() && *optimizes < *std::prev(last)) continue;
      for (auto next = first; next != last; ++next) {
        const bool is_last = std::next(next) == last;
        batches_.push_back({*next, is_last ? span.end : next[1], step, is_last});
        ++(is_last ? steps_ : early_);
      }
    }
  }

  struct Batch {
    Ns begin, end;
    uint32_t step;
    bool is_last;
  };

  double a_step() const { return a_step_; }
  size_t steps() const { return steps_; }  // of several batches
  size_t early() const { return early_; }

  // The batch that `time` of the host lies in; null: in none of them.
  const Batch* at(Ns time) const {
    const auto after = std::ranges::upper_bound(batches_, time, {}, &Batch::begin);
    if (after == batches_.begin() || time >= std::prev(after)->end) return nullptr;
    return &*std::prev(after);
  }

 private:
  std::vector<Batch> batches_;
  size_t steps_ = 0, early_ = 0;
  double a_step_ = 0;
};

struct Exchanges {
  std::set<const Batches::Batch*> early;  // batches that have some
  double early_ns = 0, last_ns = 0;
  HostCalls waits;              // the host's, for other ranks, in early batches
  std::vector<uint64_t> calls;  // that enqueue collectives in early batches: thread and index, ascending

  void add(const Batches::Batch& batch, double ns) {
    (batch.is_last ? last_ns : early_ns) += ns;
    if (!batch.is_last) early.insert(&batch);
  }
};

uint64_t key(uint32_t thread, uint32_t call) {
  return uint64_t{thread} << 32 | call;
}

void add_waits(const RuleInput& input, const Batches& batches, Exchanges& found) {
  HostCalls& waits = found.waits;
  waits.ns_of_step.resize(input.rank.steps.size());
  double longest = 0;
  for (const attribute::Slice& slice : input.rank.slices) {
    if (slice.category != Category::CommHost) continue;
    const Batches::Batch* batch = batches.at(slice.begin);
    if (!batch) continue;
    const double ns = double(slice.end - slice.begin);
    found.add(*batch, ns);
    if (batch->is_last) continue;
    waits.ns_of_step[batch->step] += ns;
    waits.total_ns += ns;
    ++waits.calls;
    if (slice.thread != input.process.training_thread) continue;
    waits.members.push_back(slice.call);
    if (ns > longest) waits.call = slice.call;
    longest = std::max(longest, ns);
  }
  std::ranges::sort(waits.members);
  const auto repeated = std::ranges::unique(waits.members);
  waits.members.erase(repeated.begin(), repeated.end());
}

// Gradients are reduced. What sharded models gather in each batch are parameters, which they need.
void add_collectives(const RuleInput& input, const Batches& batches, Exchanges& found) {
  if (!input.device) return;
  for (const model::DeviceOp& op : input.device->operations) {
    if (op.kind != trace::RecordKind::Kernel || op.launch_call == model::kNone) continue;
    const model::Kernel& kernel = input.run.kernels[op.kernel];
    if (!kernel.is_communication || !reduces_gradients(collective_kind(kernel.name))) continue;
    const Batches::Batch* batch =
        batches.at(input.process.threads[op.launch_thread].calls[op.launch_call].begin);
    if (!batch) continue;
    found.add(*batch, double(op.end - op.begin));
    if (!batch->is_last) found.calls.push_back(key(op.launch_thread, op.launch_call));
  }
  std::ranges::sort(found.calls);
}

// What waits for later ranks may stay, after the step's last batch.
void settle_on_host(Finding& finding, const RuleInput& input, const HostCalls& waits, double share) {
  const double kept = waiting_for_ranks(input) / input.rank.share(attribute::Bottleneck::Communication);
  settle_without(finding, input, waits, kept);
  const auto best = prediction_without(input, waits);
  if (finding.prediction && best) finding.prediction = predict::between(*best, *finding.prediction);
  if (finding.prediction)
    finding.prediction->assumptions.emplace_back(
        "computing takes as long as before: the threads that exchange gradients also took cores from it, so "
        "more may be gained");
  else
    finding.ceiling_speedup = ceiling_without_exchange(input, share);
}

void settle(Finding& finding, const RuleInput& input, const Exchanges& found, double share) {
  if (found.calls.empty()) return settle_on_host(finding, input, found.waits, share);
  if (!input.streams) {
    finding.ceiling_speedup = ceiling_without(input, share);
    return;
  }
  predict::StreamReplayInput changed = *input.assumed_streams;
  predict::drop_with_operations(changed, [&](const predict::HostEvent& event) {
    return std::ranges::binary_search(found.calls, key(event.thread, event.call));
  });
  settle_with(finding, input, std::move(changed), share);
}

void name_fix(Finding& finding, const RuleInput& input, const Exchanges& found, double batches) {
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

// Of the step, what is exposed of the exchanges in early batches.
double share_of(const RuleInput& input, const Exchanges& found) {
  if (found.calls.empty()) return found.waits.share(input);
  double all_ns = 0;
  for (const model::DeviceOp& op : input.device->operations)
    if (op.kind == trace::RecordKind::Kernel && input.run.kernels[op.kernel].is_communication)
      all_ns += double(op.end - op.begin);
  return input.rank.share(attribute::Bottleneck::Communication) * found.early_ns / all_ns;
}

bool exchanges_each(const Batches& batches, const Exchanges& found) {
  const double early = double(batches.early()), steps = double(batches.steps());
  return double(found.early.size()) >= kLeastOfBatches * early &&
         found.early_ns / early >= kLeastOfLast * found.last_ns / steps;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (input.rank.share(attribute::Bottleneck::Communication) < kLeastShare ||
      input.process.training_thread == model::kNone)
    return std::nullopt;
  const Batches batches(input);
  if (batches.early() < kLeastBatches || 2 * batches.steps() < input.rank.steps.size()) return std::nullopt;
  Exchanges found;
  add_waits(input, batches, found);
  add_collectives(input, batches, found);
  const double share = share_of(input, found);
  if (!exchanges_each(batches, found) || share < kLeastShare) return std::nullopt;

  Finding finding = make_finding(kSyncEachMicrobatch, input, share);
  finding.title = fmt::format(
      "Gradient accumulation: ranks exchange gradients after each of the {:.0f} batches of a step; all but "
      "the last exchange take {:.0f}% of it",
      batches.a_step(), 100 * share);
  finding.evidence = {{"communication before the step's last batch", 100 * share, "% of the step"},
                      {"earlier batches with communication",
                       100 * double(found.early.size()) / double(batches.early()), "% of them"},
                      {"batches", batches.a_step(), "a step"}};
  name_fix(finding, input, found, batches.a_step());
  settle(finding, input, found, share);
  return finding;
}

}  // namespace

const Rule kSyncEachMicrobatch{
    "sync-each-microbatch",
    "Gradients are accumulated over several batches, and ranks exchange them after each of these, not once a "
    "step.",
    "A step takes several batches from its loader, and ranks communicate as much after those that no "
    "optimizer step follows as after the last: they reduce gradients on the GPU, or the host waits for other "
    "ranks (Gloo, MPI). Time spent waiting for a late rank remains. What sharded models (FSDP) gather in "
    "each "
    "batch are parameters, and not counted.",
    "Compute all but the last batch of a step in `model.no_sync()` (DistributedDataParallel, FSDP), which "
    "Accelerate's `accumulate()` and Lightning's `accumulate_grad_batches` do. With FSDP, `no_sync()` keeps "
    "gradients of the whole model in memory.",
    kThresholds,
    evaluate,
    attribute::Bottleneck::Communication};

}  // namespace gpuwatch::advise
