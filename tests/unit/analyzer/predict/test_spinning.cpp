// SPDX-License-Identifier: Apache-2.0
// Training on both of two cores beside a worker that computes: monai's UNet took 12 ms a step alone, 41
// beside one worker, and 31.6 with the batch that it then makes itself (46 with the worker).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "analyzer/predict/loader_cores.h"
#include "tests/unit/analyzer/synthetic_run.h"

namespace gpuwatch::predict {
namespace {

constexpr double kAloneMs = 12, kBesideMs = 41, kFetchMs = 25;
constexpr size_t kBatches = 200;

// Each tenth step meets a worker that hardly has to do anything. `bytes`: of each batch.
LoaderReplayInput beside_a_worker(const std::function<uint64_t(size_t)>& bytes, bool pauses = true) {
  test::LoaderJob job;
  job.batches = kBatches;
  job.cpu_count = 2;
  job.cpu_share = 1;
  job.service_ms = [=](size_t i) { return pauses && i % 10 == 2 ? 1 : kFetchMs; };
  job.think_ms = [=](size_t i) { return pauses && i % 10 == 0 ? kAloneMs : kBesideMs; };
  job.describe = [&](model::Batch& batch) {
    batch.tensors = 1;
    batch.bytes = bytes(batch.index);
  };
  test::Job made = test::make_loader_job(job);
  const model::Ns begin = made.rank().steps.front().step.begin;
  for (int second = 0; second <= 8; ++second) {
    model::MachineSample sample{};
    sample.time = begin + second * 1'000'000'000ll;
    const double steps = double(sample.time - begin) / (kBesideMs * 1e6);
    sample.cpu_ns = model::Ns(steps * 57e6);
    sample.run_delay_ns = model::Ns(steps * 13e6);
    sample.children_cpu_ns = model::Ns(steps * kFetchMs * 1e6);
    made.process().machine_samples.push_back(sample);
  }
  return extract_loader(made.run, made.rank()).value();
}

uint64_t one_size(size_t) {
  return 1'000'000;
}

TEST(Spinning, IsWhatParallelTrainingLosesBesideWorkers) {
  const LoaderReplayInput recording = beside_a_worker(one_size);
  EXPECT_NEAR(recording.quick_think_ns, kAloneMs * 1e6, 1e6);
  EXPECT_GT(recording.scheduling.spinning_power, 2);
  EXPECT_LT(std::abs(check(recording).error()), 0.05);
  const Estimate alone = replay_estimate(recording, {.workers = 0});
  EXPECT_NEAR(alone.expected, kAloneMs + 0.9 * kFetchMs, 1);
  EXPECT_LE(alone.low, 32) << "a fetch takes less CPU time without company";
  const std::vector<std::string> assumed = assumptions(recording, {.workers = 0});
  EXPECT_TRUE(std::ranges::any_of(assumed, [](const std::string& line) {
    return line.find("fitted to the recorded step") != line.npos;
  })) << "a fit is no check";
}

// Texts of all lengths: the quick steps are those with little to do.
TEST(Spinning, IsNotToldFromStepsOfOtherSizes) {
  const LoaderReplayInput recording = beside_a_worker([](size_t i) { return 100'000 * (1 + i % 10); });
  EXPECT_EQ(recording.quick_think_ns, 0);
}

TEST(Spinning, IsNotToldWhereNoStepWasQuick) {
  EXPECT_EQ(beside_a_worker(one_size, false).quick_think_ns, 0);
}

}  // namespace
}  // namespace gpuwatch::predict
