// SPDX-License-Identifier: Apache-2.0
// A dataset that has no equal part for each worker: those that have none make no batch, those that have less
// end before the others, and their turns go to those.
#include <gtest/gtest.h>

#include <cmath>

#include "analyzer/predict/loader_replay.h"
#include "analyzer/predict/worker_parts.h"
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

using PartsOfEach = std::vector<int>;

TEST(Parts, AreThoseOfTheWorkersThatMakeBatches) {
  const LoaderReplayInput recording = recorded(one_of_two());
  EXPECT_EQ(recording.parts, (PartsOfEach{1, 0}));
  EXPECT_LT(std::abs(check(recording).error()), 0.02);
  EXPECT_EQ(recorded(test::make_loader_job({.workers = 2})).parts, PartsOfEach());
  EXPECT_EQ(recorded(test::make_loader_job({.workers = 0})).parts, PartsOfEach());
  // What a worker that had its turn fetched and nobody took is none: the dataset's end.
  test::Job ended = one_of_two();
  model::Batch& end = ended.process().epochs[0].batches.emplace_back(ended.process().epochs[0].batches[1]);
  end.index = 1000;
  end.worker = 1;
  end.next = {};
  end.received = 0;
  EXPECT_EQ(recorded(ended).parts, (PartsOfEach{1, 0}));
}

TEST(Parts, AreNotKnownOfAFewBatchesOrWithoutAWorkersTrace) {
  EXPECT_EQ(recorded(one_of_two({.batches = 7})).parts, PartsOfEach());
  test::Job lost = test::make_loader_job({.workers = 2});
  for (model::Batch& batch : lost.process().epochs[0].batches)
    if (batch.worker == 1) batch.fetch = {};
  EXPECT_EQ(recorded(lost).parts, PartsOfEach());
}

TEST(Parts, AreUnequalWhereOneWorkerEndsBeforeTheOthers) {
  const LoaderReplayInput recording = recorded(test::make_two_files_and_one());
  EXPECT_EQ(recording.parts, (PartsOfEach{2, 1}));
  EXPECT_LT(std::abs(check(recording).error()), 0.02);
  EXPECT_NEAR(largest_share(recording, recording.setting), 2.0 / 3, 1e-9);
  EXPECT_EQ(limit_words(recording, recording.setting), "one of 2 workers makes 67% of the batches");
  test::Job cut = test::make_two_files_and_one();
  cut.process().threads[0].calls.clear();
  EXPECT_EQ(recorded(cut).parts, PartsOfEach()) << "who has how much, the end of an epoch tells";
  test::Job by_speed = test::make_two_files_and_one();
  by_speed.process().loaders[0].in_order = 0;
  EXPECT_EQ(recorded(by_speed).parts, PartsOfEach()) << "out of order the quicker worker makes more";
}

// One step of 10 ms for each batch of the larger part, whatever the buffer: 200 of them. Three workers have
// one part each, four no more.
TEST(Parts, BoundWhatOtherNumbersOfWorkersGain) {
  const LoaderReplayInput recording = recorded(test::make_two_files_and_one());
  LoaderSetting setting = recording.setting;
  EXPECT_NEAR(replay(recording, setting).step_ms, 10 * 200 / 300.0, 0.2);
  setting.prefetch_factor = 8;
  EXPECT_NEAR(replay(recording, setting).step_ms, 10 * 200 / 300.0, 0.4);
  for (const int workers : {3, 4}) {
    setting.workers = workers;
    EXPECT_EQ(parts_of_workers(recording, setting), (PartsOfEach{1, 1, 1}));
    EXPECT_NEAR(replay(recording, setting).step_ms, 4, 0.2) << "training itself";
  }
  setting.workers = 1;
  EXPECT_NEAR(replay(recording, setting).step_ms, 10, 0.2);
  setting = recording.setting;
  setting.is_split = true;
  EXPECT_NEAR(replay(recording, setting).step_ms, 5, 0.2);
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
