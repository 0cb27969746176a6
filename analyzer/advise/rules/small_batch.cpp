// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

extern const Rule kSmallBatch;

namespace {

using attribute::Category;
using attribute::Group;

constexpr double kLeastBusy = 0.50;
constexpr double kMostFill = 0.50;
constexpr double kWorthDoubling = 1.10;
constexpr int kMostDoublings = 4;

constexpr Threshold kThresholds[] = {
    {"share of the step with a kernel running", kLeastBusy, "of the step",
     "below it the device waits for something else first"},
    {"multiprocessors that the running kernels can fill, weighted by time", kMostFill, "of all",
     "half a device: doubling the batch costs such a kernel nothing"},
    {"samples a second gained by doubling", kWorthDoubling, "times",
     "the last doubling that pays for its memory"},
    {"doublings", kMostDoublings, "times", "further from what was recorded nothing is certain"},
};

// How much of the device the kernels' grids can occupy, weighted by their time.
double fill(const RuleInput& input) {
  double filled = 0, all = 0;
  for (const predict::StreamOp& op : input.streams->ops) {
    const model::DeviceOp& recorded = input.device->operations[op.device_op];
    if (recorded.kernel >= input.run.kernels.size()) continue;
    const model::Kernel& kernel = input.run.kernels[recorded.kernel];
    double blocks = double(kernel.grid[0]) * kernel.grid[1] * kernel.grid[2];
    filled += op.duration_ns * std::min(1.0, blocks / std::max(1, input.device->multiprocessors));
    all += op.duration_ns;
  }
  return all > 0 ? filled / all : 1;
}

// Batches of today's size a millisecond.
double batches_per_ms(const predict::StreamRecording& recording, double factor) {
  double ms = predict::replay(recording).step_ms;
  return ms > 0 ? factor / ms : 0;
}

// With a loader the batch is a number to set; without one only its factor is known.
void name_fix(Finding& finding, const RuleInput& input, double factor) {
  const model::Loader* loader = input.configured_loader();
  const double samples = input.rank.series.samples_per_step;
  const double batch = loader && loader->batch_size > 0 ? loader->batch_size : samples;
  finding.fix.setting = "batch_size";
  finding.fix.value = batch > 0 ? fmt::format("{:.0f}", batch * factor) : fmt::format("x{:.0f}", factor);
  finding.fix.summary = fmt::format(
      "{}; changes optimisation: retune the learning rate",
      batch > 0 ? "batch_size=" + finding.fix.value : fmt::format("a batch {:.0f} times as large", factor));
  if (loader) finding.fix.location = loader->location;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  const double samples = input.rank.series.samples_per_step;
  if (!input.streams || !input.device || input.device->multiprocessors <= 0) return std::nullopt;
  if (input.rank.share(Category::Compute) < kLeastBusy) return std::nullopt;
  double filled = fill(input);
  if (filled > kMostFill) return std::nullopt;

  double factor = 1, rate = batches_per_ms(assumed_streams(input), 1), first_rate = rate;
  std::optional<predict::StreamRecording> best;
  for (int i = 0; i < kMostDoublings; ++i) {
    predict::StreamRecording changed = assumed_streams(input);
    predict::scale_batch(changed, factor * 2, input.run, *input.device);
    double doubled = batches_per_ms(changed, factor * 2);
    if (doubled < rate * kWorthDoubling) break;
    rate = doubled;
    factor *= 2;
    best = std::move(changed);
  }
  if (!best) return std::nullopt;

  Finding finding = make_finding(kSmallBatch, input, input.rank.share(Category::Compute) * (1 - filled));
  finding.title = "The device is busy but barely filled: the batch is small for it";
  finding.evidence = {{"device filled by the running kernels", 100 * filled, "%"},
                      {"multiprocessors", double(input.device->multiprocessors), ""}};
  if (samples > 0) finding.evidence.push_back({"samples a step", samples, ""});
  name_fix(finding, input, factor);
  auto step = samples > 0 ? stream_prediction(input, *best) : std::nullopt;
  if (step) {
    finding.prediction = predict::as_samples_per_s(*step, samples, samples * factor);
    finding.prediction->assumptions.push_back("the larger batch fits into the device's memory");
    finding.prediction->assumptions.push_back("kernel time grows by whole waves of thread blocks");
  } else {
    finding.ceiling_speedup = rate / first_rate;
  }
  return finding;
}

}  // namespace

const Rule kSmallBatch{
    "small-batch",
    "The device is busy but barely filled: kernels with too few thread blocks, fixed costs in every step.",
    "Kernels run for most of the step, and their grids occupy less than half of the multiprocessors. A "
    "device that "
    "is idle between short kernels is `launch-bound`.",
    "`batch_size=N`, doubled as long as the replay gains 10 % samples a second each time. It changes "
    "optimisation: "
    "retune the learning rate. Gradient accumulation does not fill a device.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
