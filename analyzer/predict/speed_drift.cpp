// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/speed_drift.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

namespace gpuwatch::predict {
namespace {

// A sixth of a recording is about as long as what a speed lasts where it was seen (a Python loop took 5 or
// 9 ms for 0.5 to 5 s each on one of two virtual CPUs, and another run of some seconds all of one): shorter
// pieces would count each of them as chance, which it is not.
constexpr size_t kStretches = 6, kLeastBatches = 4;  // in each
constexpr double kTrainingComputes = 0.5;            // of its time

double mean(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / double(values.size());
}

double variance(std::span<const double> values) {
  const double middle = mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - middle) * (value - middle);
  return sum / double(values.size() - 1);
}

}  // namespace

double speed_drift(const LoaderReplayInput& recording) {
  std::vector<double> cpu_ns;
  for (const ReplayEpoch& epoch : recording.epochs)
    for (const BatchCost& batch : epoch.batches)
      if (batch.counted) cpu_ns.push_back(batch.cpu_ns);
  const size_t length = cpu_ns.size() / kStretches;
  if (length < kLeastBatches) return 0;
  std::vector<double> means;
  double within = 0;
  for (size_t i = 0; i < kStretches; ++i) {
    const auto stretch = std::span(cpu_ns).subspan(i * length, length);
    means.push_back(mean(stretch));
    within += variance(stretch) / double(kStretches);
  }
  const double whole = mean(means);
  return whole > 0 ? std::sqrt(std::max(0.0, variance(means) - within / double(length))) / whole : 0;
}

LoaderReplayInput at_speed(const LoaderReplayInput& recording, double factor) {
  LoaderReplayInput result = recording;
  for (ReplayEpoch& epoch : result.epochs) {
    for (BatchCost& batch : epoch.batches) {
      batch.service_ns += batch.cpu_ns * (factor - 1);
      batch.cpu_ns *= factor;
      if (recording.think_cores >= kTrainingComputes) batch.think_ns *= factor;
    }
  }
  return result;
}

}  // namespace gpuwatch::predict
