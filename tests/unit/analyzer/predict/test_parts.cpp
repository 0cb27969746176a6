// SPDX-License-Identifier: Apache-2.0
// A dataset that has fewer parts than there are workers: those without one make no batch, and their turns go
// to the others.
#include <gtest/gtest.h>

#include <cmath>

#include "analyzer/predict/loader_replay.h"
#include "tests/unit/analyzer/synthetic_run.h"

namespace gpuwatch::predict {
namespace {

// One of two workers makes all batches, four ahead.
test::Job one_of_two(test::LoaderJob wanted = {}) {
  wanted.workers = 1;
  wanted.prefetch_factor = 4;
  test::Job job = test::make_loader_job(wanted);
  model::Process& process = job.process();
  process.loaders[0].num_workers = 2;
  process.loaders[0].prefetch_factor = 2;
  process.epochs[0].workers.push_back(process.epochs[0].workers[0]);
  return job;
}

LoaderReplayInput recorded(const test::Job& job) {
  return extract_loader(job.run, job.ranks.front()).value();
}

TEST(Parts, AreAsManyAsWorkersThatMakeBatches) {
  const LoaderReplayInput recording = recorded(one_of_two());
  EXPECT_EQ(recording.parts, 1);
  EXPECT_LT(std::abs(check(recording).error()), 0.02);
  EXPECT_EQ(recorded(test::make_loader_job({.workers = 2})).parts, 0);
  EXPECT_EQ(recorded(test::make_loader_job({.workers = 0})).parts, 0);
  // What a worker that had its turn fetched and nobody took is none: the dataset's end.
  test::Job ended = one_of_two();
  model::Batch& end = ended.process().epochs[0].batches.emplace_back(ended.process().epochs[0].batches[1]);
  end.index = 1000;
  end.worker = 1;
  end.next = {};
  end.received = 0;
  EXPECT_EQ(recorded(ended).parts, 1);
}

TEST(Parts, AreNotKnownOfAFewBatchesOrWithoutAWorkersTrace) {
  EXPECT_EQ(recorded(one_of_two({.batches = 7})).parts, 0);
  test::Job lost = test::make_loader_job({.workers = 2});
  for (model::Batch& batch : lost.process().epochs[0].batches)
    if (batch.worker == 1) batch.fetch = {};
  EXPECT_EQ(recorded(lost).parts, 0);
}

// Four batches of 10 ms hide one of 30 ms, two do not.
TEST(Parts, LeaveTheirTurnsToTheOthers) {
  const test::LoaderJob uneven{.service_ms = [](size_t i) { return i % 4 == 0 ? 30.0 : 3.0; },
                               .think_ms = [](size_t) { return 10.0; }};
  EXPECT_LT(std::abs(check(recorded(one_of_two(uneven))).error()), 0.02);
}

TEST(Parts, OnlyAnotherSplitMakesFaster) {
  const LoaderReplayInput recording = recorded(one_of_two());  // 10 ms to make, 4 ms to use
  const double now = replay(recording, recording.setting).step_ms;
  EXPECT_NEAR(now, 10, 0.3);
  for (const LoaderSetting& setting :
       {LoaderSetting{.workers = 2, .prefetch_factor = 8}, LoaderSetting{.workers = 4}})
    EXPECT_NEAR(replay(recording, setting).step_ms, now, 0.2);
  LoaderSetting split = recording.setting;
  split.is_split = true;
  EXPECT_NEAR(replay(recording, split).step_ms, 5, 0.3);
  EXPECT_EQ(limit_words(recording, recording.setting), "1 of 2 workers makes all batches");
}

}  // namespace
}  // namespace gpuwatch::predict
