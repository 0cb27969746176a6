// SPDX-License-Identifier: Apache-2.0
// The same work at two speeds of the processor, as a virtual machine whose cores others share has it.
#include "analyzer/predict/speed_drift.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/analyzer/synthetic_run.h"

namespace gpuwatch::predict {
namespace {

LoaderReplayInput extracted(std::function<double(size_t)> service_ms, double cpu_share = 1) {
  test::LoaderJob job;
  job.workers = 0;
  job.batches = 120;
  job.cpu_share = cpu_share;
  job.service_ms = std::move(service_ms);
  job.think_ms = [](size_t) { return 5.0; };
  const test::Job made = test::make_loader_job(job);
  return extract_loader(made.run, made.ranks.front()).value();
}

// 20 and 34 ms for 40 batches each: four of six stretches are slow or quick, two are half of each.
TEST(SpeedDrift, IsWhatStretchesOfTheRunDifferBy) {
  const auto recording = extracted([](size_t batch) { return batch / 40 % 2 ? 34.0 : 20.0; });
  EXPECT_NEAR(speed_drift(recording), 0.3, 0.06);
}

TEST(SpeedDrift, IsNotWhatBatchesDifferBy) {
  EXPECT_LT(speed_drift(extracted([](size_t batch) { return batch % 2 ? 34.0 : 20.0; })), 0.01);
  EXPECT_EQ(speed_drift(extracted([](size_t) { return 20.0; })), 0);
}

TEST(SpeedDrift, IsNotToldByFewBatches) {
  LoaderReplayInput recording = extracted([](size_t) { return 20.0; });
  recording.epochs.front().batches.resize(20);
  recording.epochs.front().batches.front().cpu_ns *= 10;
  EXPECT_EQ(speed_drift(recording), 0);
}

// What wakes up from a sleep for each sample takes more CPU time at some times than at others.
TEST(SpeedDrift, IsThatOfTrainingWhereBatchesHardlyCompute) {
  LoaderReplayInput recording =
      extracted([](size_t batch) { return batch / 40 % 2 ? 34.0 : 20.0; }, /*cpu_share=*/0.05);
  recording.think_cores = 1;
  EXPECT_EQ(speed_drift(recording), 0);
  std::vector<BatchCost>& batches = recording.epochs.front().batches;
  for (size_t i = 0; i < batches.size(); ++i) batches[i].think_ns *= i / 40 % 2 ? 1.7 : 1;
  EXPECT_NEAR(speed_drift(recording), 0.3, 0.06);
  recording.think_cores = 0.2;  // on a GPU
  EXPECT_EQ(speed_drift(recording), 0);
}

// Other runs may meet the one speed or the other.
TEST(SpeedDrift, WidensWhatIsPredicted) {
  const LoaderSetting two{.workers = 2};
  const auto width = [&](const LoaderReplayInput& recording) {
    const Estimate range = replay_estimate(recording, two);
    return (range.high - range.low) / range.expected;
  };
  const auto drifting = extracted([](size_t batch) { return batch / 40 % 2 ? 34.0 : 20.0; });
  const auto steady = extracted([](size_t) { return 24.7; });
  EXPECT_GT(width(drifting), width(steady) + 0.3);
  // What sleeps is as quick on any processor.
  const auto asleep = extracted([](size_t batch) { return batch / 40 % 2 ? 34.0 : 20.0; }, 0);
  EXPECT_EQ(speed_drift(asleep), 0);
}

}  // namespace
}  // namespace gpuwatch::predict
