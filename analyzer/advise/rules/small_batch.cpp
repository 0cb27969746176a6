// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/host_gaps.h"
#include "analyzer/advise/loader_words.h"
#include "analyzer/advise/matrix_kernels.h"
#include "analyzer/advise/passes.h"
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
    {"time with a kernel running, or with the GPU idle while the host launches the next", kLeastBusy,
     "of the step", "below it something else is the bottleneck"},
    {"SMs that the running kernels can fill, weighted by time, 0 for the optimizer's kernels (any share "
     "where "
     "the GPU idles longer between launches than it computes)",
     kMostFill, "of all SMs", "half a GPU: doubling the batch does not make such a kernel slower"},
    {"throughput gained by doubling the batch", kWorthDoubling, "times",
     "a smaller gain does not pay for the memory"},
    {"doublings", kMostDoublings, "times", "further from the recorded batch predictions are not reliable"},
};

// Shares of the kernel time, as far as the kernels' shapes are known.
struct Use {
  double filled = 1;     // SMs filled by the grids of kernels whose work grows with the batch
  double optimizer = 0;  // the optimizer's kernels
};

Use use_of_kernels(const RuleInput& input) {
  constexpr double kLeastKnown = 0.5;  // of the kernel time; less says nothing of the rest
  double filled_ns = 0, optimizer_ns = 0, known_ns = 0, all_ns = 0;
  for (const predict::StreamOp& op : input.streams->ops) {
    const model::DeviceOp& recorded = input.device->operations[op.device_op];
    if (recorded.kernel >= input.run.kernels.size()) continue;
    const model::Kernel& kernel = input.run.kernels[recorded.kernel];
    all_ns += op.duration_ns;
    if (!kernel.has_shape() && !op.is_of_optimizer) continue;  // what it fills is not known
    known_ns += op.duration_ns;
    const double share = std::min(1.0, kernel.blocks() / std::max(1, input.device->multiprocessors));
    (op.is_of_optimizer ? optimizer_ns : filled_ns) += op.duration_ns * (op.is_of_optimizer ? 1 : share);
  }
  if (all_ns <= 0 || known_ns < kLeastKnown * all_ns) return {};
  return {filled_ns / known_ns, optimizer_ns / all_ns};
}

// Batches between two optimizer steps, of which the gradients are accumulated. 1 if that is not known.
int accumulated(const RuleInput& input) {
  const model::Loader* loader = input.configured_loader();
  const double batches = loader && loader->batch_size > 0
                             ? input.rank.series.samples_per_step / loader->batch_size
                             : passes_a_step(input);
  return std::max(1, int(std::lround(batches)));
}

// One tile of a matmul keeps the arithmetic units of its SM busy, and a second one on the same SM adds
// little: an SM does between one and two tiles' worth of work at a time.
predict::StreamReplayInput with_kernels_of_batch(const RuleInput& input, double factor,
                                                 double tiles_at_once) {
  predict::StreamReplayInput changed = *input.assumed_streams;
  predict::scale_batch(changed, factor, input.run, *input.device, [&](const model::Kernel& kernel) {
    return matrix_arithmetic(kernel.name) == MatrixArithmetic::kOther ? predict::resident_blocks(kernel)
                                                                      : tiles_at_once;
  });
  return changed;
}

// What the script does between its launches is taken to grow with the batch.
predict::StreamReplayInput with_batch(const RuleInput& input, const HostGaps& gaps, double factor,
                                      double tiles_at_once) {
  predict::StreamReplayInput changed = with_kernels_of_batch(input, factor, tiles_at_once);
  for (size_t i = 0; i < changed.events.size(); ++i)
    changed.events[i].gap_ns += std::min(changed.events[i].gap_ns, gaps.own_ns()[i]) * (factor - 1);
  return changed;
}

// At best. What the script does between its launches need not grow: 16 times the batch of tabular data gained
// 6.6 times, at most 4.6 if it did. The rows of a small batch may all lie in one tile, which then waits for
// the weights: such a matmul takes as long for a larger one. 8 times the batch of a forecaster gained 7.2
// times, where by thread blocks 16 times the batch could not have gained more than 4.5.
predict::StreamReplayInput with_batch_at_best(const RuleInput& input, double factor) {
  predict::StreamReplayInput changed = with_kernels_of_batch(input, factor, 2);
  for (size_t i = 0; i < changed.ops.size(); ++i) {
    const model::DeviceOp& recorded = input.device->operations[changed.ops[i].device_op];
    if (recorded.kernel >= input.run.kernels.size()) continue;
    const model::Kernel& kernel = input.run.kernels[recorded.kernel];
    const bool is_matmul = matrix_arithmetic(kernel.name) != MatrixArithmetic::kOther;
    if (is_matmul && kernel.has_shape() && kernel.blocks() < input.device->multiprocessors)
      changed.ops[i].duration_ns = input.assumed_streams->ops[i].duration_ns;
  }
  return changed;
}

// Throughput in batches of the recorded size a millisecond.
double batches_per_ms(const predict::StreamReplayInput& recording, double factor) {
  double ms = predict::replay(recording).step_ms;
  return ms > 0 ? factor / ms : 0;
}

std::optional<predict::Prediction> prediction_with_batch(const RuleInput& input, const HostGaps& gaps,
                                                         double factor) {
  auto step = stream_prediction(input, with_batch(input, gaps, factor, 1));
  const auto at_best = stream_prediction(input, with_batch(input, gaps, factor, 2));
  if (!step || !at_best) return std::nullopt;
  step->value.low = std::min(step->value.low, at_best->value.low);
  return step;
}

// With a loader the new batch size is known, without one only the factor.
void name_fix(Finding& finding, const RuleInput& input, double factor) {
  const model::Loader* loader = input.configured_loader();
  const double samples = input.rank.series.samples_per_step;
  const double batch = loader && loader->batch_size > 0 ? loader->batch_size : samples;
  const std::string value =
      batch > 0 ? fmt::format("{:.0f}", batch * factor) : fmt::format("x{:.0f}", factor);
  finding.fix.change = StreamChange{StreamEdit::kScaleBatch, "batch_size", value};
  finding.fix.summary =
      batch > 0 ? fmt::format("Set batch_size={} and retune the learning rate", value)
                : fmt::format("Use a larger batch ({:.0f}x) and retune the learning rate", factor);
  if (loader) finding.fix.location = batch_size_location(*loader);
}

// The factor by which a larger batch pays off.
double best_factor(const RuleInput& input, const HostGaps& gaps) {
  double factor = 1, rate = 1 / input.assumed_step_ms;
  for (int i = 0; i < kMostDoublings; ++i) {
    const double doubled = batches_per_ms(with_batch(input, gaps, factor * 2, 1), factor * 2);
    if (doubled < rate * kWorthDoubling) break;
    rate = doubled;
    factor *= 2;
  }
  return factor;
}

// Host or GPU time of the optimizer, a step.
double optimizer_ms(const RuleInput& input) {
  double host_ns = 0, device_ns = 0;
  for (const predict::HostEvent& event : input.assumed_streams->events) {
    if (event.op_count == 0 || !input.assumed_streams->ops[event.first_op].is_of_optimizer) continue;
    host_ns += event.gap_ns + event.cost_ns;
    for (uint32_t i = 0; i < event.op_count; ++i)
      device_ns += input.assumed_streams->ops[event.first_op + i].duration_ns;
  }
  return std::max(host_ns, device_ns) / 1e6 / double(std::max<size_t>(1, input.assumed_streams->steps));
}

// Its statistics are those of the batch that it sees: PyTorch's and cuDNN's names.
bool has_batch_norm(const RuleInput& input) {
  return std::ranges::any_of(input.run.kernels, [](const model::Kernel& kernel) {
    return std::ranges::any_of(std::initializer_list<const char*>{"batch_norm", "bn_fw", "BatchNorm"},
                               [&](const char* part) { return kernel.name.find(part) != std::string::npos; });
  });
}

// What fewer launches gain at least counts in the order: all that may grow with the batch does, and the
// optimizer steps for the same samples.
void allow_for_worst(Finding& finding, const RuleInput& input, const HostGaps& gaps, int factor) {
  const auto step = prediction_with_batch(input, gaps, factor);
  if (!step) return;
  const double samples = std::max(1.0, input.rank.series.samples_per_step);
  finding.prediction = predict::as_samples_per_s(*step, samples, samples * factor);
  const double worst_ms = step->value.high + (factor - 1) * optimizer_ms(input);
  finding.prediction->speedup.low =
      std::min(finding.prediction->speedup.low, factor * input.now_ms / worst_ms);
  give_as_bound(finding);
}

// Where gradients are accumulated a larger batch is the same training, so that it need not gain much. How
// much it does, kernels that fill the SMs do not tell: reading the weights takes as long for one sample. At
// most as many thread blocks run beside each other as there is room for. Nor does the time that a worker
// takes for a batch: what of it each sample takes is not known. Batches of 2 made in proportion bounded a
// batch of 16 by 2.1 times, and it gained 5.2.
std::optional<Finding> in_one_batch(const RuleInput& input, const HostGaps& gaps, const Use& use,
                                    int batches) {
  int factor = 2;
  while (factor * 2 <= std::min(batches, 1 << kMostDoublings)) factor *= 2;
  if (batches_per_ms(with_batch(input, gaps, factor, 1), factor) * input.assumed_step_ms < kWorthDoubling)
    return std::nullopt;
  const double bound = speedup_in_one_pass(input, factor);
  Finding finding = make_finding(kSmallBatch, input, 1 - 1 / bound);
  const model::Loader* loader = input.configured_loader();
  const double batch = loader ? loader->batch_size : 0;
  const bool idles = gaps.launch_share() > input.rank.share(Category::Compute);
  finding.title =
      fmt::format("Small batch: gradients are accumulated over {} batches{}, and {} for each of them",
                  batches, batch > 0 ? fmt::format(" of {:.0f}", batch) : "",
                  idles ? "the host launches the kernels" : "the GPU reads the weights");
  finding.evidence = {{"batches", double(batches), "between two optimizer steps"},
                      {"filled by kernels that grow with the batch", 100 * use.filled, "% of the SMs"}};
  name_fix(finding, input, factor);
  const int left = batches / factor;
  finding.fix.summary =
      fmt::format("{}, if it fits into GPU memory, {} {} batches: the same training{}",
                  batch > 0 ? fmt::format("Set batch_size={:.0f}", batch * factor)
                            : fmt::format("Use a larger batch ({}x)", factor),
                  left > 1 ? fmt::format("and accumulate the gradients of {} instead of", left)
                           : "instead of accumulating the gradients of",
                  batches, has_batch_norm(input) ? ", except for batch normalization's statistics" : "");
  finding.is_conditional = true;
  if (idles) allow_for_worst(finding, input, gaps, factor);
  finding.ceiling_speedup = bound;
  return finding;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  const double samples = input.rank.series.samples_per_step;
  if (!input.streams || !input.device || input.device->multiprocessors <= 0) return std::nullopt;
  const HostGaps gaps(input);
  const double computing = input.rank.share(Category::Compute), launching = gaps.launch_share();
  if (computing + launching < kLeastBusy) return std::nullopt;
  const Use use = use_of_kernels(input);
  const int batches = accumulated(input);
  const bool is_full = use.filled > kMostFill;
  if (batches > 1) {
    if (passes_a_step(input) > 1 && source_of_passes(launch_sources(input), gaps.launches_a_step()))
      return std::nullopt;
    auto finding = in_one_batch(input, gaps, use, batches);
    if (is_full || finding) return finding;
  }
  // Kernels that fill the SMs take longer for a larger batch, the launches that the GPU waits for do not: of
  // 1400 launches a step, 8 times the batch took 1.7 times as long.
  if (is_full && launching <= computing) return std::nullopt;

  const double factor = best_factor(input, gaps);
  if (factor == 1) return std::nullopt;

  Finding finding = make_finding(kSmallBatch, input, computing * (1 - use.filled) + launching);
  finding.title =
      is_full ? fmt::format(
                    "Small batch: the GPU idles {:.0f}% of each step between launches, which a larger batch "
                    "does not add to",
                    100 * launching)
      : launching > computing
          ? fmt::format(
                "Small batch: the GPU idles {:.0f}% of each step between launches, and its kernels fill only "
                "{:.0f}% of the SMs",
                100 * launching, 100 * use.filled)
      : use.optimizer > kMostFill
          ? fmt::format(
                "Small batch: the optimizer takes {:.0f}% of the kernel time, whatever the batch size",
                100 * use.optimizer)
          : fmt::format("Small batch: the GPU is busy, but its kernels fill only {:.0f}% of the SMs",
                        100 * use.filled);
  finding.evidence = {{"filled by kernels that grow with the batch", 100 * use.filled, "% of the SMs"},
                      {"GPU compute", 100 * computing, "% of the step"},
                      {"GPU idle while the host launches", 100 * launching, "% of the step"},
                      {"optimizer kernels", 100 * use.optimizer, "% of the kernel time"},
                      {"SMs", double(input.device->multiprocessors), "on the GPU"}};
  if (samples > 0) finding.evidence.push_back({"samples", samples, "a step"});
  finding.may_have_to_stay = is_full;
  name_fix(finding, input, factor);
  finding.is_conditional = true;
  const auto step = prediction_with_batch(input, gaps, factor);
  if (step) {
    finding.prediction =
        predict::as_samples_per_s(*step, std::max(1.0, samples), std::max(1.0, samples) * factor);
    finding.prediction->assumptions.emplace_back("the larger batch fits into GPU memory");
    finding.prediction->assumptions.emplace_back(
        "kernel time grows by whole waves of thread blocks, that of weight gradients in proportion to the "
        "batch");
    finding.prediction->assumptions.emplace_back("an SM runs one or two thread blocks of a matmul at a time");
    bound_what_is_open(finding);
    // Samples a second are not known, how many times as many are: what it gains at least counts in the order.
    if (samples <= 0 && finding.prediction) give_as_bound(finding);
  }
  if (!finding.prediction) {
    // What the script does wrong in each step, and a replay says what it gains without, comes before a bound
    // of another training: waiting for the GPU after each layer cost 1.5 times, 16 times the batch "up to
    // 3.8".
    finding.may_have_to_stay = true;
    finding.ceiling_speedup =
        batches_per_ms(with_batch_at_best(input, factor), factor) * input.assumed_step_ms;
  }
  return finding;
}

}  // namespace

const Rule kSmallBatch{
    "small-batch",
    "The GPU is barely filled: kernels with too few thread blocks, and fixed costs in every step.",
    "Kernels and their launches take most of the step, but the grids fill less than half of the SMs, or they "
    "are the optimizer's, which take the same time for any batch size, or the GPU idles between launches for "
    "more of the step than it computes. Where the GPU idles between short "
    "kernels, "
    "`launch-bound` is the remedy that leaves the batch as it is.",
    "`batch_size=N`, doubled as long as the simulated replay gains 10% throughput each time. A larger batch "
    "changes the optimization: retune the learning rate. Gradient accumulation does not fill the GPU, it "
    "only saves optimizer steps: where it is used, larger batches of which fewer are accumulated are the "
    "same "
    "training.",
    kThresholds,
    evaluate,
    {attribute::Category::Compute, attribute::Category::LaunchApi, attribute::Category::LaunchDispatch,
     attribute::Category::DeviceLaunchGap}};

}  // namespace gpuwatch::advise
