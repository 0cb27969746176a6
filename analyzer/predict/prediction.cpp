// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/prediction.h"

#include <algorithm>
#include <cmath>

namespace gpuwatch::predict {
namespace {

constexpr double kPredictError = 0.03;

// An interval wider than the value itself says nothing: steps of a disturbed job gave "158 ms (0 to 338)".
constexpr double kWidest = 1;

}  // namespace

Trust ReplayCheck::trust() const {
  if (steps < kLeastReplaySteps || measured_ms <= 0) return Trust::kCeilingOnly;
  double off = std::abs(error());
  if (off <= kPredictError) return Trust::kPredict;
  return off <= kMostReplayError ? Trust::kWiden : Trust::kCeilingOnly;
}

Estimate beyond_run_to_run(Estimate sampled) {
  const double run_to_run = kRunToRun * sampled.expected;
  const auto beyond = [&](double end) { return std::hypot(end - sampled.expected, run_to_run) - run_to_run; };
  return {sampled.expected - beyond(sampled.low), sampled.expected, sampled.expected + beyond(sampled.high)};
}

std::optional<Prediction> step_prediction(const ReplayCheck& check, Estimate replayed_ms, double now_ms,
                                          double floor_ms) {
  if (check.trust() == Trust::kCeilingOnly || replayed_ms.expected <= 0) return std::nullopt;
  double off = std::abs(check.error());
  double margin = kRunToRun + (check.trust() == Trust::kWiden ? 2 * off : off);
  Prediction prediction;
  prediction.now = now_ms;
  prediction.replay = check;
  Estimate& value = prediction.value;
  value.expected = std::max(replayed_ms.expected, floor_ms);
  value.low = std::max(std::min(replayed_ms.low, value.expected) * (1 - margin), floor_ms * (1 - kRunToRun));
  value.low = std::min(value.low, value.expected);
  value.high = std::max(replayed_ms.high, value.expected) * (1 + margin);
  if (value.high - value.low > kWidest * value.expected) return std::nullopt;
  prediction.speedup = {now_ms / value.high, now_ms / value.expected, now_ms / value.low};
  return prediction;
}

std::optional<Prediction> between(const Prediction& best, const Prediction& worst) {
  Prediction prediction = worst;
  Estimate& value = prediction.value;
  value = {std::min(best.value.low, worst.value.low), std::sqrt(best.value.expected * worst.value.expected),
           std::max(best.value.high, worst.value.high)};
  if (value.high - value.low > kWidest * value.expected) return std::nullopt;
  prediction.speedup = {prediction.now / value.high, prediction.now / value.expected,
                        prediction.now / value.low};
  return prediction;
}

Prediction as_samples_per_s(const Prediction& step, double samples_now, double samples_after) {
  Prediction prediction = step;
  prediction.metric = "samples_per_s";
  prediction.now = samples_now * 1e3 / step.now;
  prediction.value = {samples_after * 1e3 / step.value.high, samples_after * 1e3 / step.value.expected,
                      samples_after * 1e3 / step.value.low};
  prediction.speedup = {prediction.value.low / prediction.now, prediction.value.expected / prediction.now,
                        prediction.value.high / prediction.now};
  return prediction;
}

}  // namespace gpuwatch::predict
