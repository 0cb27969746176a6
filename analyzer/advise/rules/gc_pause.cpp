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
    {"Python's garbage collector on the training thread", kLeastShare, "of the step",
     "below it run-to-run spread hides the change"},
};

std::optional<Finding> evaluate(const RuleInput& input) {
  const HostCalls calls = training_calls(
      input, [](const model::HostCall& call) { return call.op_class == trace::OpClass::GarbageCollection; });
  // Beside a busy device only what the device had to wait for counts.
  const double share = input.device ? input.rank.share(attribute::Category::Gc) : calls.share(input);
  if (calls.calls == 0 || share < kLeastShare) return std::nullopt;
  const double per_step = double(calls.calls) / double(input.rank.steps.size());
  Finding finding = make_finding(kGcPause, input, share);
  finding.title =
      fmt::format("Python's garbage collector stops the training thread for {:.3g} ms, {:.3g} times a step",
                  calls.total_ns / double(calls.calls) / 1e6, per_step);
  finding.evidence = {{"collecting garbage", 100 * share, "% of the step"},
                      {"collections over 0.1 ms", per_step, "a step"},
                      {"mean collection", calls.total_ns / double(calls.calls) / 1e6, "ms"}};
  finding.fix.change = StreamChange{StreamEdit::kShortenHostWork, "gc", "freeze"};
  finding.fix.summary =
      "gc.collect(); gc.freeze() once before the loop, and no gc.collect() in it (or gc.disable() and "
      "one gc.collect() every 1000 steps)";
  finding.fix.snippet = "import gc; gc.collect(); gc.freeze()  # before the training loop";
  finding.fix.location = call_location(input.run, input.process, input.process.training_thread, calls.call);
  settle_without(finding, input, calls);
  return finding;
}

}  // namespace

const Rule kGcPause{"gc-pause",
                    "Python's garbage collector stops the thread that launches work, because there are many "
                    "objects to look at "
                    "or the script collects by itself.",
                    "The collector's own callbacks: pauses over 0.1 ms on the training thread, with a device "
                    "only as far as it "
                    "was idle meanwhile.",
                    "`gc.freeze()` after set-up, so that long-lived objects are not looked at again; "
                    "collections by hand, rarely.",
                    kThresholds,
                    evaluate};

}  // namespace gpuwatch::advise
