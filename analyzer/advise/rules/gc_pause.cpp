// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/host_calls.h"
#include "analyzer/advise/location.h"

namespace gpuwatch::advise {

extern const Rule kGcPause;

namespace {

constexpr double kLeastShare = 0.03;

constexpr Threshold kThresholds[] = {
    {"garbage collection on the training thread", kLeastShare, "of the step",
     "a smaller gain is lost in run-to-run variation"},
};

std::optional<Finding> evaluate(const RuleInput& input) {
  const HostCalls calls = training_calls(
      input, [](const model::HostCall& call) { return call.op_class == trace::OpClass::GarbageCollection; });
  // With a device, only the pauses that left it idle cost time.
  const double share = input.device ? input.rank.share(attribute::Category::Gc) : calls.share(input);
  if (calls.calls == 0 || share < kLeastShare) return std::nullopt;
  const double per_step = double(calls.calls) / double(input.rank.steps.size());
  Finding finding = make_finding(kGcPause, input, share);
  const double pause_ms = calls.total_ns / double(calls.calls) / 1e6;
  finding.title = fmt::format("Garbage collection: pauses of {:.3g} ms stop the training thread {}", pause_ms,
                              times_a_step(per_step));
  finding.evidence = {{"Python garbage collection", 100 * share, "% of the step"},
                      {"collections longer than 0.1 ms", per_step, "a step"},
                      {"mean collection", pause_ms, "ms"}};
  finding.fix.change = StreamChange{StreamEdit::kShortenHostWork, "gc", "freeze"};
  finding.fix.summary =
      "Call gc.collect() and gc.freeze() once before the training loop, and no gc.collect() in it";
  finding.fix.snippet = "import gc; gc.collect(); gc.freeze()  # before the training loop";
  finding.fix.location = call_location(input.run, input.process, input.process.training_thread, calls.call);
  settle_without(finding, input, calls);
  return finding;
}

}  // namespace

const Rule kGcPause{
    "gc-pause",
    "Python's garbage collector pauses the thread that launches kernels, because it scans many objects or "
    "because the script calls `gc.collect()`.",
    "Pauses longer than 0.1 ms on the training thread, reported by the collector's own callbacks. With a "
    "GPU, only pauses during which it was idle count.",
    "`gc.collect(); gc.freeze()` after set-up, so that long-lived objects are not scanned again, and no "
    "`gc.collect()` in the loop. Or `gc.disable()` with one `gc.collect()` every 1000 steps.",
    kThresholds,
    evaluate,
    {attribute::Category::Gc}};

}  // namespace gpuwatch::advise
