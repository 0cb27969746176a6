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
// Of the time to make a batch. What wakes up from a sleep computes in cold caches: 1.9 ms of CPU time in
// batches of 122 ms drifted by 33% over a run in which training took the same 58 ms.
constexpr double kBatchesCompute = 0.1;

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

// Of each counted batch: its own, or training's where batches hardly compute.
std::vector<double> computing_ns(const LoaderReplayInput& recording) {
  const BatchCost batch = mean_batch(recording);
  const bool is_training = batch.cpu_ns < kBatchesCompute * batch.service_ns;
  std::vector<double> result;
  if (is_training && recording.think_cores < kTrainingComputes) return result;
  for (const ReplayEpoch& epoch : recording.epochs)
    for (const BatchCost& each : epoch.batches)
      if (each.counted) result.push_back(is_training ? each.think_ns : each.cpu_ns);
  return result;
}

}  // namespace

double speed_drift(const LoaderReplayInput& recording) {
  const std::vector<double> cpu_ns = computing_ns(recording);
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
