// SPDX-License-Identifier: Apache-2.0
// What a new worker does once, in its first fetch: imports, opens, copies pages that the fork shared. Each
// worker of the replay does it, however many the recorded run had.
#include <gtest/gtest.h>

#include <cmath>

#include "analyzer/predict/loader_replay.h"
#include "tests/unit/analyzer/synthetic_run.h"

namespace gpuwatch::predict {
namespace {

constexpr size_t kWorkers = 8;

test::LoaderJob job_of(size_t workers, double first_ms, double cpu_share) {
  test::LoaderJob job;
  job.workers = int(workers);
  job.batches = 48;
  job.cpu_count = 32;
  job.cpu_share = cpu_share;
  job.service_ms = [=](size_t i) { return i < workers ? first_ms : 10.0; };
  job.think_ms = [](size_t) { return 2.0; };
  return job;
}

LoaderReplayInput recorded(const test::LoaderJob& job) {
  const test::Job made = test::make_loader_job(job);
  return extract_loader(made.run, made.ranks.front()).value();
}

TEST(FirstFetch, IsDoneByEachWorker) {
  for (const double cpu_share : {1.0, 0.0}) {
    const LoaderReplayInput recording = recorded(job_of(kWorkers, 40, cpu_share));
    EXPECT_NEAR(recording.restart.first_fetch_ns, 30e6, 1e6);
    EXPECT_NEAR(recording.restart.first_fetch_cpu_ns, cpu_share * 30e6, 1e6);
    EXPECT_LT(std::abs(check(recording).error()), 0.02);
    EXPECT_NEAR(mean_batch(recording).service_ns, 10e6, 0.1e6);
    const double inline_ms = replay(recording, {.workers = 0}).step_ms;
    EXPECT_NEAR(inline_ms, 12, 0.5) << "the training process has done it";
  }
}

TEST(FirstFetch, IsLikeOthersWhereBatchesDiffer) {
  EXPECT_EQ(recorded(job_of(kWorkers, 10, 1)).restart.first_fetch_ns, 0);
  test::LoaderJob job = job_of(kWorkers, 10, 1);
  job.service_ms = [](size_t i) { return i % 3 == 0 ? 40.0 : 10.0; };
  EXPECT_EQ(recorded(job).restart.first_fetch_ns, 0);
  // Sorted by length, the longest first: the second ones of the workers are as long.
  job.service_ms = [](size_t i) { return i < 2 * kWorkers ? 40.0 : 10.0; };
  EXPECT_EQ(recorded(job).restart.first_fetch_ns, 0);
}

}  // namespace
}  // namespace gpuwatch::predict
