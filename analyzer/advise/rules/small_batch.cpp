// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/advise/matrix_kernels.h"
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
    {"multiprocessors that the running kernels can fill, weighted by time, none for the optimizer's",
     kMostFill, "of all", "half a device: doubling the batch costs such a kernel nothing"},
    {"samples a second gained by doubling", kWorthDoubling, "times",
     "the last doubling that pays for its memory"},
    {"doublings", kMostDoublings, "times", "further from what was recorded nothing is certain"},
};

// Of the kernels' time.
struct Use {
  double filled = 1;     // of the device, by the grids of kernels whose work grows with the batch
  double optimizer = 0;  // by the optimizer's kernels
};

Use use_of_kernels(const RuleInput& input) {
  double filled_ns = 0, optimizer_ns = 0, all_ns = 0;
  for (const predict::StreamOp& op : input.streams->ops) {
    const model::DeviceOp& recorded = input.device->operations[op.device_op];
    if (recorded.kernel >= input.run.kernels.size()) continue;
    all_ns += op.duration_ns;
    const model::Kernel& kernel = input.run.kernels[recorded.kernel];
    const double share = std::min(1.0, kernel.blocks() / std::max(1, input.device->multiprocessors));
    (op.is_of_optimizer ? optimizer_ns : filled_ns) += op.duration_ns * (op.is_of_optimizer ? 1 : share);
  }
  return all_ns > 0 ? Use{filled_ns / all_ns, optimizer_ns / all_ns} : Use{};
}

// A tile of a product keeps the arithmetic units of its multiprocessor busy, a second one beside it adds
// little: between one and two tiles' worth of work are done at a time.
predict::StreamReplayInput with_batch(const RuleInput& input, double factor, double tiles_at_once) {
  predict::StreamReplayInput changed = *input.assumed_streams;
  predict::scale_batch(changed, factor, input.run, *input.device, [&](const model::Kernel& kernel) {
    return matrix_arithmetic(kernel.name) == MatrixArithmetic::kOther ? predict::resident_blocks(kernel)
                                                                      : tiles_at_once;
  });
  return changed;
}

// Batches of today's size a millisecond.
double batches_per_ms(const predict::StreamReplayInput& recording, double factor) {
  double ms = predict::replay(recording).step_ms;
  return ms > 0 ? factor / ms : 0;
}

std::optional<predict::Prediction> prediction_with_batch(const RuleInput& input, double factor) {
  auto step = stream_prediction(input, with_batch(input, factor, 1));
  const auto at_best = stream_prediction(input, with_batch(input, factor, 2));
  if (!step || !at_best) return std::nullopt;
  step->value.low = std::min(step->value.low, at_best->value.low);
  return step;
}

// With a loader the batch is a number to set; without one only its factor is known.
void name_fix(Finding& finding, const RuleInput& input, double factor) {
  const model::Loader* loader = input.configured_loader();
  const double samples = input.rank.series.samples_per_step;
  const double batch = loader && loader->batch_size > 0 ? loader->batch_size : samples;
  const std::string value =
      batch > 0 ? fmt::format("{:.0f}", batch * factor) : fmt::format("x{:.0f}", factor);
  finding.fix.change = StreamChange{StreamEdit::kScaleBatch, "batch_size", value};
  finding.fix.summary =
      fmt::format("{}; changes optimisation: retune the learning rate",
                  batch > 0 ? "batch_size=" + value : fmt::format("a batch {:.0f} times as large", factor));
  if (loader) finding.fix.location = loader->location;
}

// By which factor the batch is worth growing.
double best_factor(const RuleInput& input) {
  double factor = 1, rate = 1 / input.assumed_step_ms;
  for (int i = 0; i < kMostDoublings; ++i) {
    const double doubled = batches_per_ms(with_batch(input, factor * 2, 1), factor * 2);
    if (doubled < rate * kWorthDoubling) break;
    rate = doubled;
    factor *= 2;
  }
  return factor;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  const double samples = input.rank.series.samples_per_step;
  if (!input.streams || !input.device || input.device->multiprocessors <= 0) return std::nullopt;
  if (input.rank.share(Category::Compute) < kLeastBusy) return std::nullopt;
  const Use use = use_of_kernels(input);
  if (use.filled > kMostFill) return std::nullopt;

  const double factor = best_factor(input);
  if (factor == 1) return std::nullopt;

  Finding finding = make_finding(kSmallBatch, input, input.rank.share(Category::Compute) * (1 - use.filled));
  finding.title =
      use.optimizer > kMostFill
          ? "The device is busy with the optimizer, whose work is the same for any batch: the batch is small"
          : "The device is busy but barely filled: the batch is small for it";
  finding.evidence = {{"device filled by kernels whose work grows with the batch", 100 * use.filled, "%"},
                      {"the optimizer's kernels", 100 * use.optimizer, "% of the kernels' time"},
                      {"multiprocessors", double(input.device->multiprocessors), ""}};
  if (samples > 0) finding.evidence.push_back({"samples a step", samples, ""});
  name_fix(finding, input, factor);
  finding.is_conditional = true;
  auto step = samples > 0 ? prediction_with_batch(input, factor) : std::nullopt;
  if (step) {
    finding.prediction = predict::as_samples_per_s(*step, samples, samples * factor);
    finding.prediction->assumptions.push_back("the larger batch fits into the device's memory");
    finding.prediction->assumptions.push_back(
        "kernel time grows by whole waves of thread blocks, that of weight gradients with the batch; of "
        "products one or two run on a multiprocessor");
  } else {
    finding.ceiling_speedup = batches_per_ms(with_batch(input, factor, 2), factor) * input.assumed_step_ms;
  }
  return finding;
}

}  // namespace

const Rule kSmallBatch{
    "small-batch",
    "The device is busy but barely filled: kernels with too few thread blocks, fixed costs in every step.",
    "Kernels run for most of the step; their grids occupy less than half of the multiprocessors, or they "
    "are the optimizer's, which does the same work for any batch. A device that is idle between short "
    "kernels is `launch-bound`.",
    "`batch_size=N`, doubled as long as the replay gains 10 % samples a second each time. It changes "
    "optimisation: retune the learning rate. Gradient accumulation does not fill a device; it saves "
    "optimizer steps.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
