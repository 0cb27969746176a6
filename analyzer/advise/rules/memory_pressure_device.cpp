// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/device_samples.h"
#include "analyzer/advise/location.h"
#include "analyzer/advise/machine.h"
#include "analyzer/advise/memory_calls.h"
#include "analyzer/advise/recurrence.h"
#include "analyzer/advise/remedy_words.h"

namespace gpuwatch::advise {

extern const Rule kMemoryPressureDevice;

namespace {

constexpr Threshold kThresholds[] = {
    kGoesOn,
    kLeastGain,
};

// Whatever was freed for a retry has to be allocated again: in a steady state, training allocates nothing.
std::vector<model::TimeSpan> lost_spans(const RuleInput& input, const std::vector<AllocationRetry>& retries) {
  std::vector<model::TimeSpan> spans;
  for (const AllocationRetry& retry : retries) spans.push_back(retry.time);
  for (const model::Thread& thread : input.process.threads)
    for (const model::HostCall& call : thread.calls)
      if (allocates_device_memory(input, call) || frees_device_memory(input, call))
        spans.push_back({call.begin, call.end});
  return spans;
}

void name_fix(Finding& finding, const RuleInput& input) {
  const model::Loader* loader = input.configured_loader();
  const int batch = loader ? loader->batch_size : -1;
  const bool is_torch = speaks_torch(input.process);
  const char* else_try =
      is_torch ? "activation checkpointing (torch.utils.checkpoint)" : "recomputing activations";
  if (batch > 1) {
    finding.fix.change = NamedChange{"batch_size", std::to_string(batch / 2)};
    finding.fix.summary = fmt::format(
        "Set batch_size={} and accumulate gradients over 2 batches for each optimizer step, or try {}",
        batch / 2, else_try);
    finding.fix.location = loader->location;
    return;
  }
  finding.fix.change = NamedChange{"batch_size", "half"};
  finding.fix.summary = fmt::format(
      "Halve the batch and accumulate gradients over 2 batches for each optimizer step, or try {}", else_try);
}

void add_memory(Finding& finding, const RuleInput& input) {
  double used = 0, all = double(input.device ? input.device->memory_bytes : 0), others = 0;
  for (const model::DeviceSample* sample : samples_in_steps(input)) {
    used = std::max(used, double(sample->memory_used_bytes));
    others = std::max(others, double(sample->other_memory_bytes));
    all = std::max(all, double(sample->memory_bytes));
  }
  if (used > 0 && all > 0)
    finding.evidence.push_back({"most GPU memory in use", 100 * used / all, "% of it"});
  if (others > 0) finding.evidence.push_back({"GPU memory of other processes", others / (1 << 20), "MiB"});
}

std::optional<Finding> evaluate(const RuleInput& input) {
  const std::vector<AllocationRetry> retries = allocation_retries(input);
  if (retries.empty() || !is_out_of_device_memory(input)) return std::nullopt;
  std::vector<model::TimeSpan> spans;
  for (const AllocationRetry& retry : retries) spans.push_back(retry.time);
  const Recurrence retried = recurrence_of(input, std::move(spans));
  const Recurrence lost = recurrence_of(input, lost_spans(input, retries));
  if (lost.idle_share < kLeastLost) return std::nullopt;

  Finding finding = make_finding(kMemoryPressureDevice, input, lost.idle_share);
  finding.title = fmt::format(
      "GPU memory is full: allocations fail and are tried again in {} of {} steps, the GPU idles {:.0f}% of "
      "each step",
      retried.steps, input.rank.steps.size(), 100 * lost.idle_share);
  finding.evidence = {
      {"GPU idle while memory is allocated and freed", 100 * lost.idle_share, "% of the step"},
      {"failed allocations that were tried again", double(retried.spans), "in the run"},
      {"steps with one", double(retried.steps), "steps"}};
  add_memory(finding, input);
  name_fix(finding, input);
  if (finding.fix.location.empty())
    finding.fix.location =
        call_location(input.run, input.process, retries.back().thread, retries.back().call);
  // Of the recorded step: of this share the GPU idled, whatever other findings would leave of it.
  finding.ceiling_speedup = 1 / (1 - std::min(lost.idle_share, 0.99));
  return finding;
}

}  // namespace

const Rule kMemoryPressureDevice{
    "memory-pressure-device",
    "The GPU's memory is too small for the batch: allocations fail, the "
    "framework returns its cached memory to the driver and allocates again, "
    "step after step.",
    "A failed allocation of GPU memory, frees, then an allocation that "
    "succeeds, in several steps also of the second half of the run. "
    "Allocations without failures are `allocator-churn`, failures before the "
    "first step are a framework that looks how much it can get.",
    "A smaller batch with gradient accumulation, or activation checkpointing.",
    kThresholds,
    evaluate,
    {attribute::Category::Alloc, attribute::Category::Sync, attribute::Category::HostCompute}};

}  // namespace gpuwatch::advise
