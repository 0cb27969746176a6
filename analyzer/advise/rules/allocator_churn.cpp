// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/location.h"
#include "analyzer/advise/memory_calls.h"
#include "analyzer/advise/remedy_words.h"
#include "analyzer/advise/rule.h"
#include "analyzer/model/stacks.h"

namespace gpuwatch::advise {

extern const Rule kAllocatorChurn;

namespace {

using attribute::Category;

constexpr double kLeastShare = 0.02;
constexpr double kLeastPerStep = 0.5;

constexpr Threshold kThresholds[] = {
    {"GPU idle while memory is allocated or freed", kLeastShare, "of the step",
     "in a steady state, training allocates no GPU memory at all"},
    {"allocations and frees", kLeastPerStep, "a step",
     "fewer of them come from memory use that still grows, not from churn"},
    kLeastGain,
};

bool is_memory_call(const predict::HostEvent& event) {
  return manages_memory(event.op_class);
}

// The script's empty_cache(): PyTorch's allocator returns its cached memory to the driver and has to allocate
// it again in the next step.
const predict::HostEvent* empty_cache_call(const RuleInput& input) {
  const auto within_empty_cache = [&](const predict::HostEvent& event) {
    const model::Thread& thread = input.process.threads[event.thread];
    const std::string* stack = model::stack_of(input.run, thread, thread.calls[event.call]);
    if (!is_memory_call(event) || !stack) return false;
    const std::vector<model::StackFrame> frames = model::frames_of(*stack);
    return std::any_of(frames.begin(), frames.end(),
                       [](const auto& f) { return f.function == "empty_cache"; });
  };
  const auto& events = input.streams->events;
  const auto found = std::find_if(events.begin(), events.end(), within_empty_cache);
  return found == events.end() ? nullptr : &*found;
}

void name_fix(Finding& finding, const RuleInput& input, const predict::HostEvent& longest) {
  const predict::HostEvent* emptied = empty_cache_call(input);
  const predict::HostEvent& shown = emptied ? *emptied : longest;
  finding.fix.location = call_location(input.run, input.process, shown.thread, shown.call);
  if (!speaks_torch(input.process)) {
    finding.fix.change = StreamChange{StreamEdit::kDropCalls, "allocation", ""};
    finding.fix.summary = "Allocate once before the loop, or use cudaMallocAsync with a memory pool";
  } else if (emptied) {
    finding.fix.change = StreamChange{StreamEdit::kDropCalls, "torch.cuda.empty_cache", "removed"};
    finding.fix.summary = "Remove torch.cuda.empty_cache() from the training loop";
  } else {
    finding.fix.change =
        StreamChange{StreamEdit::kDropCalls, "PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"};
    finding.fix.summary =
        "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, and use batches of one shape";
  }
}

std::optional<Finding> evaluate(const RuleInput& input) {
  double lost = input.rank.share(Category::Alloc);
  if (!input.streams || lost < kLeastShare) return std::nullopt;
  double calls = 0, longest = -1;
  const predict::HostEvent* shown = nullptr;
  for (const predict::HostEvent& event : input.streams->events) {
    if (!is_memory_call(event)) continue;
    ++calls;
    if (event.cost_ns <= longest) continue;
    longest = event.cost_ns;
    shown = &event;
  }
  if (!shown || calls < kLeastPerStep * double(input.rank.steps.size())) return std::nullopt;
  if (is_out_of_device_memory(input)) return std::nullopt;  // its own finding: no setting makes room
  predict::StreamReplayInput changed = *input.assumed_streams;
  predict::drop_calls(changed, is_memory_call);
  double now = input.assumed_step_ms;
  if (now < predict::replay(changed).step_ms * kLeastSpeedup) return std::nullopt;

  Finding finding = make_finding(kAllocatorChurn, input, lost);
  const double per_step = calls / double(input.rank.steps.size());
  finding.title = fmt::format("GPU memory churn: {:.3g} allocations and frees a step, {}", per_step,
                              stall_words(input, lost));
  finding.evidence = {share_evidence(input, Category::Alloc),
                      {"longest of these calls", longest / 1e6, "ms"},
                      {"allocations and frees", per_step, "a step"}};
  name_fix(finding, input, *shown);
  settle_with(finding, input, std::move(changed), lost);
  return finding;
}

}  // namespace

const Rule kAllocatorChurn{
    "allocator-churn",
    "The job allocates and frees GPU memory during training, long after start-up. `cudaMalloc` is slow, and "
    "`cudaFree` also waits until the GPU has finished its work.",
    "At least every second step contains a call that allocates or frees GPU or pinned memory, and the GPU "
    "idles during these calls.",
    "Allocate memory before the loop or from a memory pool. In PyTorch: remove `torch.cuda.empty_cache()` "
    "from the loop, set `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`, and use batches of one shape.",
    kThresholds,
    evaluate,
    {attribute::Category::Alloc, attribute::Category::Sync}};

}  // namespace gpuwatch::advise
