// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/location.h"
#include "analyzer/advise/rule.h"
#include "analyzer/model/stacks.h"

namespace gpuwatch::advise {

extern const Rule kAllocatorChurn;

namespace {

using attribute::Category;

constexpr double kLeastShare = 0.02;
constexpr double kLeastPerStep = 0.5;

constexpr Threshold kThresholds[] = {
    {"device idle while memory is allocated or freed", kLeastShare, "of the step",
     "a steady state needs none at all"},
    {"allocations and frees", kLeastPerStep, "a step", "now and then is growth, not churn"},
    kLeastGain,
};

bool is_memory_call(const predict::HostEvent& event) {
  return manages_memory(event.op_class);
}

// Where the script tells PyTorch's allocator to give its memory back: it asks for it again in the next step.
const predict::HostEvent* emptied_at(const RuleInput& input) {
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
  const predict::HostEvent* emptied = emptied_at(input);
  const predict::HostEvent& shown = emptied ? *emptied : longest;
  finding.fix.location = call_location(input.run, input.process, shown.thread, shown.call);
  if (!input.process.facts.contains("torch")) {
    finding.fix.change = StreamChange{StreamEdit::kDropCalls, "allocation", ""};
    finding.fix.summary = "allocate once before the loop, or use cudaMallocAsync with a pool";
  } else if (emptied) {
    finding.fix.change = StreamChange{StreamEdit::kDropCalls, "torch.cuda.empty_cache", "removed"};
    finding.fix.summary =
        "no torch.cuda.empty_cache() in the loop: the next step asks for the same memory again";
  } else {
    finding.fix.change =
        StreamChange{StreamEdit::kDropCalls, "PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"};
    finding.fix.summary = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, and batches of one shape";
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
  predict::StreamReplayInput changed = *input.assumed_streams;
  predict::drop_calls(changed, is_memory_call);
  double now = input.assumed_step_ms;
  if (now < predict::replay(changed).step_ms * kLeastSpeedup) return std::nullopt;

  Finding finding = make_finding(kAllocatorChurn, input, lost);
  finding.title = "Device memory is allocated and freed in every step";
  finding.evidence = {share_evidence(input, Category::Alloc),
                      {"allocations and frees", calls / double(input.rank.steps.size()), "a step"}};
  name_fix(finding, input, *shown);
  finding.prediction = stream_prediction(input, changed);
  if (!finding.prediction) finding.ceiling_speedup = 1 / (1 - std::min(lost, 0.99));
  return finding;
}

}  // namespace

const Rule kAllocatorChurn{
    "allocator-churn",
    "Device memory is allocated and freed in steady state; a free also waits for the device.",
    "Allocation and free calls in every second step or more often, with the device idle meanwhile.",
    "Allocate before the loop or from a pool; in PyTorch no `torch.cuda.empty_cache()` in the loop, "
    "`expandable_segments:True` and fixed shapes.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
