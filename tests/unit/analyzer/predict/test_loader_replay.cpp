// SPDX-License-Identifier: Apache-2.0
// The loader replay against schedules worked out by hand and by an independent recurrence.
#include <gtest/gtest.h>

#include <random>

#include "analyzer/predict/loader_replay.h"
#include "tests/unit/analyzer/synthetic_run.h"

namespace gpuwatch::predict {
namespace {

using test::LoaderJob;

LoaderReplayInput constant(double service_ms, double think_ms, double cpu_share, double cores,
                           size_t batches = 400) {
  LoaderReplayInput recording;
  ReplayEpoch epoch;
  BatchCost cost{service_ms * 1e6, service_ms * cpu_share * 1e6, think_ms * 1e6};
  epoch.batches.assign(batches, cost);
  for (size_t i = 0; i < batches / 4; ++i) epoch.batches[i].counted = false;
  recording.epochs = {epoch};
  recording.cores = cores;
  return recording;
}

double step_ms(const LoaderReplayInput& recording, int workers, int prefetch = 2) {
  return replay(recording, {workers, prefetch, true}).step_ms;
}

TEST(LoaderReplay, TakesTheSumWithoutWorkers) {
  EXPECT_NEAR(step_ms(constant(10, 4, 0, 8), 0), 14, 1e-6);
}

TEST(LoaderReplay, IsLimitedByTheSlowerOfWorkersAndConsumer) {
  LoaderReplayInput recording = constant(10, 4, 0, 8);
  EXPECT_NEAR(step_ms(recording, 1), 10, 1e-3);
  EXPECT_NEAR(step_ms(recording, 2), 5, 1e-3);
  EXPECT_NEAR(step_ms(recording, 3), 4, 1e-3);
  EXPECT_NEAR(step_ms(recording, 8), 4, 1e-3);
}

// 6 ms in every third step, 16 ms in the others: of threads that fell asleep while training waited.
TEST(LoaderReplay, MayComputeAsItsQuickStepsWhereItWaitedForCoresThatWereIdle) {
  LoaderReplayInput recording = constant(40, 16, 0, 2);
  for (size_t i = 0; i < recording.epochs[0].batches.size(); i += 3)
    recording.epochs[0].batches[i].think_ns = 6e6;
  const LoaderSetting many{8, 2, true};
  const Estimate certain = replay_estimate(recording, many);
  EXPECT_GT(certain.low, 11);
  recording.think_cores_known = true;
  recording.think_cores = 1.4;
  recording.idle_cores = 1;
  recording.think_delay_share = 0.05;
  const Estimate open = replay_estimate(recording, many);
  EXPECT_NEAR(open.low, 6, 0.5);
  EXPECT_NEAR(open.expected, certain.expected, 1.5);
  recording.think_cores = 1;  // no threads that could be late
  EXPECT_GT(replay_estimate(recording, many).low, 10);
}

TEST(LoaderReplay, AgreesWithTheRecurrenceOnUnevenBatches) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    std::mt19937 random(seed);
    std::lognormal_distribution<double> service(2, 1), think(1.5, 0.5);
    std::vector<double> services, thinks;
    LoaderJob job;
    job.batches = 150;
    job.workers = int(random() % 6);
    job.prefetch_factor = 1 + int(random() % 4);
    for (size_t i = 0; i < job.batches; ++i) {
      services.push_back(service(random));
      thinks.push_back(think(random));
    }
    job.service_ms = [&](size_t i) { return services[i]; };
    job.think_ms = [&](size_t i) { return thinks[i]; };
    LoaderReplayInput recording;
    recording.epochs.resize(1);
    for (size_t i = 0; i < job.batches; ++i)
      recording.epochs[0].batches.push_back({services[i] * 1e6, 0, thinks[i] * 1e6});
    recording.cores = 64;
    double expected = test::loader_schedule(job).mean_step_ms(0);
    EXPECT_NEAR(step_ms(recording, job.workers, job.prefetch_factor), expected, expected * 1e-6)
        << "seed " << seed;
  }
}

// 100 batches of 16 ms, one worker: each step waits for it, the first one whole.
LoaderReplayInput with_first_step() {
  LoaderReplayInput recording = constant(16, 4, 0, 8, 100);
  ReplayEpoch& epoch = recording.epochs[0];
  epoch.is_first = epoch.is_counted = true;
  for (BatchCost& batch : epoch.batches) batch.counted = true;
  recording.setting.workers = 1;
  return recording;
}

TEST(LoaderReplay, LeavesOutAFirstStepThatIsWarmUpUnderTheNewSetting) {
  const LoaderReplayInput recording = with_first_step();
  EXPECT_NEAR(step_ms(recording, 1), (20 + 99 * 16) / 100.0, 1e-3);
  // Of 20 ms, in a run of steps of 8: more than twice as long.
  EXPECT_NEAR(step_ms(recording, 2), 8, 0.1);
  EXPECT_NEAR(step_ms(recording, 4), 4, 0.1);
}

TEST(LoaderReplay, CountsTheStartOfWorkersWithTheFirstStep) {
  LoaderReplayInput recording = with_first_step();
  recording.restart.come_up_ns = 5e6;
  EXPECT_NEAR(step_ms(recording, 1), (25 + 99 * 16) / 100.0, 1e-3);
  recording.restart.come_up_ns = 500e6;
  EXPECT_NEAR(step_ms(recording, 1), 16, 1e-3);
}

TEST(LoaderReplay, PromisesNothingThatTheCoresCannotKeep) {
  LoaderReplayInput recording = constant(10, 1, 1.0, 1);
  EXPECT_GT(step_ms(recording, 4), 9.99);  // 10 ms of CPU for each batch, one core
  recording.cores = 2;
  EXPECT_NEAR(step_ms(recording, 4), 5, 0.05);
}

TEST(LoaderReplay, LetsTrainingOnTheCpuCompeteWithWorkers) {
  LoaderReplayInput recording = constant(60, 60, 1.0, 2);
  recording.think_cores = 2;                  // training uses both cores
  double cpu_bound = (60 + 2 * 60) / 2.0;     // what two cores can do at best
  double by_hand = 90 + (60 - 90 * 4 / 9.0);  // 90 ms beside the worker at (2/3)^2, the rest alone
  EXPECT_GT(by_hand, cpu_bound);
  EXPECT_NEAR(step_ms(recording, 1), by_hand, 0.5);
  for (int workers : {2, 4, 8}) EXPECT_GT(step_ms(recording, workers), cpu_bound) << workers;
  EXPECT_GE(replay_estimate(recording, {1, 2, true}).high, 120);  // perhaps nothing is gained at all
}

TEST(LoaderReplay, DoesNotSlowWorkersThatSleep) {
  LoaderReplayInput recording = constant(10, 1, 0, 1);
  recording.think_cores = 1;
  EXPECT_NEAR(step_ms(recording, 10), 1, 0.01);
}

TEST(LoaderReplay, HandsOutOfOrderBatchesOverAsTheyComeReady) {
  LoaderReplayInput recording = constant(10, 5, 0, 8);
  for (size_t i = 0; i < recording.epochs[0].batches.size(); i += 10)
    recording.epochs[0].batches[i].service_ns = 60e6;
  double in_order = replay(recording, {3, 2, true}).step_ms;
  double as_ready = replay(recording, {3, 2, false}).step_ms;
  EXPECT_LT(as_ready, in_order * 0.95);
}

double step_ms(const LoaderReplayInput& recording, const LoaderSetting& setting) {
  return replay(recording, setting).step_ms;
}

TEST(LoaderReplay, AppliesFactorsToTheirPartOfABatch) {
  LoaderReplayInput recording = constant(10, 2, 0.5, 8);                   // 5 ms computing,
  for (BatchCost& batch : recording.epochs[0].batches) batch.io_ns = 3e6;  // 3 ms reading, 2 ms asleep
  LoaderSetting setting{.workers = 0};
  EXPECT_NEAR(step_ms(recording, setting), 12, 1e-6);
  setting.io_factor = 0;
  EXPECT_NEAR(step_ms(recording, setting), 9, 1e-6);
  setting.cpu_factor = 0.2;
  EXPECT_NEAR(step_ms(recording, setting), 5, 1e-6);
}

TEST(LoaderReplay, GivesMoreCoresToWhatComputes) {
  LoaderReplayInput recording = constant(10, 1, 1.0, 1);
  LoaderSetting setting{.workers = 4};
  EXPECT_GT(step_ms(recording, setting), 9.99);
  EXPECT_EQ(limit(recording, setting), Limit::kCpu);
  setting.cores = 8;
  EXPECT_NEAR(step_ms(recording, setting), 2.5, 0.01);
  EXPECT_EQ(limit(recording, setting), Limit::kWorkers);
}

TEST(LoaderReplay, IsNoFasterThanTheOnePinThread) {
  LoaderReplayInput recording = constant(10, 1, 0, 8);
  recording.hand_over.take_ns = 1e6;
  recording.pin_ns = 3e6;
  LoaderSetting setting{.workers = 8, .pin = true};
  EXPECT_NEAR(step_ms(recording, setting), 4, 0.01);
  EXPECT_EQ(limit(recording, setting), Limit::kPinThread);
  setting.pin = false;
  EXPECT_NEAR(step_ms(recording, setting), 2, 0.01);  // the consumer takes for itself
}

TEST(LoaderReplay, WaitsForThePausesOfAWorkerThatKeepsTheInterpreter) {
  // Training takes longer than a batch, so batches are there early; their worker makes another while one is
  // asked for, and lets it through only once it is done.
  LoaderReplayInput recording = constant(24, 26, 1.0, 8);
  recording.hand_over = {.dispatch_ns = 3e6, .turnaround_ns = 1.5e6, .take_ns = 1e6, .measured = true};
  LoaderSetting one{.workers = 1, .prefetch_factor = 2};
  EXPECT_NEAR(step_ms(recording, one), 27, 0.1);
  recording.hand_over.busy_factor = 1000;
  EXPECT_GT(step_ms(recording, one), 27.2);
  LoaderReplayInput early = constant(1, 14, 1.0, 8);  // its workers are done long before the consumer comes
  early.hand_over = recording.hand_over;
  EXPECT_NEAR(step_ms(early, {.workers = 2}), 15, 0.01);
}

// Ten epochs of 40 batches, each epoch begun within a recorded step.
LoaderReplayInput epochs() {
  LoaderReplayInput recording = constant(10, 20, 0, 8, 40);
  ReplayEpoch epoch = recording.epochs[0];
  for (BatchCost& batch : epoch.batches) batch.counted = true;
  epoch.is_counted = true;
  epoch.own_ns = 5e6;
  recording.epochs.assign(10, epoch);
  recording.epochs[0].is_first = true;
  recording.restart = {.start_ns = 30e6, .come_up_ns = 20e6, .stop_ns = 10e6, .reset_ns = 2e6};
  return recording;
}

// zip(labeled, unlabeled): both give each step a batch, and the second takes 10 ms to make it.
TEST(LoaderReplay, IsOfTheLoaderThatTrainingWaitsFor) {
  test::Job job = test::make_loader_job({.workers = 0});
  model::Process& process = job.process();
  model::LoaderEpoch labeled = process.epochs.front();
  for (model::Batch& batch : labeled.batches) {
    batch.next.begin = batch.next.end;
    batch.next.end += 100'000;
    batch.fetch = batch.next;
  }
  process.loaders.insert(process.loaders.begin(), process.loaders.front());
  process.epochs.front().loader = 1;
  process.epochs.insert(process.epochs.begin(), labeled);
  EXPECT_EQ(main_loader(job.run, job.ranks.front()), 1u);
  process.epochs.front().batches.resize(process.epochs.back().batches.size() /
                                        4);  // an evaluation now and then
  for (model::Batch& batch : process.epochs.front().batches) batch.next.end += 400'000'000;
  EXPECT_EQ(main_loader(job.run, job.ranks.front()), 1u);
}

// 20 ms of each next() go to the sampler, with 2 ms of the batch to wait for: another sampler is what helps.
TEST(LoaderReplay, KnowsWhatDrawingIndicesTakes) {
  test::LoaderJob job;
  job.workers = 4;
  job.draw_ms = 20;
  job.service_ms = [](size_t) { return 10.0; };
  job.think_ms = [](size_t) { return 30.0; };
  const test::Job made = test::make_loader_job(job);
  const LoaderReplayInput recording = extract_loader(made.run, made.ranks.front()).value();
  EXPECT_NEAR(recording.hand_over.draw_ns / 1e6, 20, 2);
  LoaderSetting other = recording.setting;
  other.draw_factor = 0;
  job.draw_ms = 0;
  EXPECT_NEAR(replay(recording, other).step_ms, test::loader_schedule(job).mean_step_ms(), 2);
  job.draw_ms = 1;  // as long as a slow return
  const test::Job quick = test::make_loader_job(job);
  EXPECT_EQ(extract_loader(quick.run, quick.ranks.front())->hand_over.draw_ns, 0);
}

TEST(LoaderReplay, StartsWorkersAnewInEachPassUnlessTheyLive) {
  LoaderReplayInput recording = epochs();
  double cold = 5 + 2 * (30 + 10) + 20 + 10, warm = 5 + 2 + 10;  // own, workers, up, first batch
  LoaderSetting setting{.workers = 2};                           // the run's first step is warm-up
  EXPECT_NEAR(step_ms(recording, setting), 20 + 9 * cold / 399, 1e-3);
  setting.persistent = true;
  EXPECT_NEAR(step_ms(recording, setting), 20 + 9 * warm / 399, 1e-3);
}

TEST(LoaderReplay, CountsHalfOfARestartForThePassAndHalfForEachWorker) {
  LoaderReplayInput recording = constant(10, 40, 0, 8, 100);
  for (BatchCost& batch : recording.epochs[0].batches) batch.counted = true;
  recording.epochs[0].is_counted = true;
  recording.setting = {2, 2, true};
  recording.restart.start_ns = 10e6;  // of each of the two recorded workers
  LoaderReplayInput free = recording;
  free.restart.start_ns = 0;
  auto restart_ms = [&](int workers) { return 100 * (step_ms(recording, workers) - step_ms(free, workers)); };
  EXPECT_NEAR(restart_ms(2), 20, 1e-6);
  EXPECT_NEAR(restart_ms(4), (20 + 40) / 2.0, 1e-6);
  const Estimate range = replay_estimate(recording, {4, 2, true});
  EXPECT_LE(range.low, step_ms(free, 4) + 0.2 + 1e-6);   // all of it the epoch's
  EXPECT_GE(range.high, step_ms(free, 4) + 0.4 - 1e-6);  // all of it the workers'
}

// Two workers that compute beside training that computes, on two cores: 34 ms of CPU a batch are 17 ms at
// best, and the time that a core stays idle beside a crowded one comes on top.
TEST(LoaderReplay, LosesTimeWhereACoreIsIdleBesideACrowdedOne) {
  LoaderReplayInput recording = constant(24, 10, 1, 2);
  recording.think_cores = 1;
  recording.scheduling.looks = 0;
  const double at_once = step_ms(recording, 2);
  EXPECT_NEAR(at_once, 17, 0.4);
  recording.scheduling.looks = 3;
  EXPECT_GT(step_ms(recording, 2), at_once * 1.01);
  const Estimate range = replay_estimate(recording, {2, 2, true});
  EXPECT_LE(range.low, at_once);
  EXPECT_GE(range.high, step_ms(recording, 2) - 1e-6);
  EXPECT_NEAR(step_ms(constant(24, 10, 1, 8), 2), 12, 0.1);  // no core is short: nothing is lost
}

TEST(LoaderReplay, KnowsTheMeanOfDataThatWereReadToTheirEnd) {
  LoaderReplayInput recording = constant(10, 4, 0, 8, 400);
  ReplayEpoch& epoch = recording.epochs[0];
  for (size_t i = 0; i < epoch.batches.size(); ++i)
    epoch.batches[i] = {.service_ns = i < 40 ? 100e6 : 5e6, .think_ns = 4e6};
  recording.setting.workers = 1;
  const LoaderSetting inline_fetches{.workers = 0};
  const Estimate of_a_sample = replay_estimate(recording, inline_fetches);
  EXPECT_GT(of_a_sample.high, of_a_sample.low * 1.02);
  epoch.is_whole = true;  // another order of the same batches
  const Estimate of_all = replay_estimate(recording, inline_fetches);
  EXPECT_NEAR(of_all.low, 18.5, 1e-6);
  EXPECT_NEAR(of_all.high, 18.5, 1e-6);
  const Estimate waits = replay_estimate(recording, {.workers = 2});  // the order matters to a buffer
  EXPECT_GT(waits.high, waits.low);
}

TEST(LoaderReplay, SaysWhyNothingIsGained) {
  LoaderReplayInput recording = constant(10, 20, 0, 8);
  EXPECT_EQ(limit(recording, {.workers = 4}), Limit::kTraining);
  EXPECT_NE(limit_words(recording, {.workers = 4}).find("no longer waits for data"), std::string::npos);
}

TEST(LoaderReplayInput, ReplaysTheUnchangedRunAndPredictsAnother) {
  LoaderJob recorded;
  recorded.workers = 2;
  recorded.service_ms = [](size_t i) { return i % 7 == 0 ? 40.0 : 20.0; };
  test::Job job = test::make_loader_job(recorded);
  auto recording = extract_loader(job.run, job.rank());
  ASSERT_TRUE(recording);
  EXPECT_LT(std::abs(check(*recording).error()), 0.01);
  EXPECT_EQ(check(*recording).trust(), Trust::kPredict);
  for (int workers : {1, 3, 4, 6}) {
    LoaderJob other = recorded;
    other.workers = workers;
    double expected = test::loader_schedule(other).mean_step_ms();
    EXPECT_NEAR(step_ms(*recording, workers), expected, expected * 0.02) << workers << " workers";
  }
}

// The recording was off for ten seconds: nothing is known of them, so they are no training.
TEST(LoaderReplayInput, TakesNoTimeThatWasNotRecordedForTraining) {
  LoaderJob recorded;
  recorded.workers = 1;
  test::Job job = test::make_loader_job(recorded);
  constexpr model::Ns kOff = 10'000'000'000;
  const model::Ns since = job.process().epochs[0].batches[100].next.begin;
  for (model::Batch& batch : job.process().epochs[0].batches) {
    if (batch.index < 100) continue;
    for (model::TimeSpan* span : {&batch.next, &batch.fetch}) *span = {span->begin + kOff, span->end + kOff};
    batch.sent += kOff;
    batch.received += kOff;
  }
  for (attribute::StepAttribution& step : job.rank().steps)
    if (step.step.begin >= since) {
      step.step.begin += kOff;
      step.step.end += kOff;
    }
  const auto recording = extract_loader(job.run, job.rank());
  ASSERT_TRUE(recording);
  EXPECT_LT(std::abs(check(*recording).error()), 0.01);
}

// An epoch over a text corpus: what is replayed some hundred times does not grow with it.
TEST(LoaderReplayInput, KeepsTheEndOfALongEpoch) {
  LoaderJob recorded;
  recorded.workers = 2;
  recorded.batches = 50'000;
  recorded.service_ms = [](size_t i) { return i % 7 == 0 ? 40.0 : 20.0; };
  test::Job job = test::make_loader_job(recorded);
  const auto recording = extract_loader(job.run, job.rank());
  ASSERT_TRUE(recording);
  size_t batches = 0;
  for (const ReplayEpoch& epoch : recording->epochs) batches += epoch.batches.size();
  EXPECT_GE(batches, 3000u);
  EXPECT_LE(batches, 6000u);
  EXPECT_EQ(recording->steps, job.rank().steps.size());
  EXPECT_NEAR(recording->batches_per_step, 1, 1e-3);
  EXPECT_LT(std::abs(check(*recording).error()), 0.01);
  for (int workers : {1, 3, 4, 6}) {
    LoaderJob other = recorded;
    other.workers = workers;
    const double expected = test::loader_schedule(other).mean_step_ms();
    EXPECT_NEAR(step_ms(*recording, workers), expected, expected * 0.02) << workers << " workers";
  }
}

TEST(LoaderReplayInput, BelievesNoCountOfWorkersThatNoMachineStarts) {
  test::Job job = test::make_loader_job({});
  job.process().loaders[0].num_workers = 2'000'000'000;
  EXPECT_FALSE(extract_loader(job.run, job.rank()));
}

TEST(LoaderReplayInput, AddsAnAssumedHandOverToARunWithoutWorkers) {
  LoaderJob recorded;
  recorded.workers = 0;
  test::Job job = test::make_loader_job(recorded);
  auto recording = extract_loader(job.run, job.rank());
  ASSERT_TRUE(recording);
  EXPECT_LT(std::abs(check(*recording).error()), 0.01);
  EXPECT_FALSE(recording->hand_over.measured);
  auto words = assumptions(*recording, {2, 2, true});
  EXPECT_NE(words.front().find("worker-to-trainer transfer"), std::string::npos);
}

TEST(LoaderReplayInput, FindsTheCoresThatWorkersReallyGot) {
  LoaderJob recorded;  // two workers that wait for a CPU as long as they use one: they share one core
  recorded.workers = 2;
  recorded.cpu_share = 1;
  recorded.run_delay_share = 1;
  recorded.think_ms = [](size_t) { return 0.1; };
  test::Job job = test::make_loader_job(recorded);
  auto recording = extract_loader(job.run, job.rank());
  ASSERT_TRUE(recording);
  EXPECT_TRUE(recording->is_cpu_limited);
  EXPECT_NEAR(recording->cores, 1, 0.15);
  EXPECT_GT(step_ms(*recording, 8), 9);  // eight CPUs in the mask change nothing
}

TEST(LoaderReplayInput, IgnoresALoaderThatFeedsNoRecordedStep) {
  test::Job job = test::make_loader_job({});
  for (model::Batch& batch : job.process().epochs[0].batches) {
    batch.next.begin += 1'000'000'000'000;
    batch.next.end += 1'000'000'000'000;
  }
  EXPECT_FALSE(extract_loader(job.run, job.rank()));
}

TEST(Prediction, NeedsTwentyStepsAndAReplayWithinTenPercent) {
  EXPECT_EQ((ReplayCheck{10, 10.2, 20}.trust()), Trust::kPredict);
  EXPECT_EQ((ReplayCheck{10, 10.8, 20}.trust()), Trust::kWiden);
  EXPECT_EQ((ReplayCheck{10, 11.5, 20}.trust()), Trust::kCeilingOnly);
  EXPECT_EQ((ReplayCheck{10, 10, 19}.trust()), Trust::kCeilingOnly);
}

TEST(Prediction, IsWiderWhereTheReplayIsOff) {
  auto width = [](double replayed) {
    auto prediction = step_prediction({10, replayed, 100}, {5, 5, 5}, 10, 1);
    return prediction->value.high - prediction->value.low;
  };
  EXPECT_LT(width(10), width(10.25));
  EXPECT_LT(width(10.25), width(10.6));
  EXPECT_FALSE(step_prediction({10, 12, 100}, {5, 5, 5}, 10, 1));
  EXPECT_TRUE(step_prediction({10, 10, 100}, {3, 5, 7}, 10, 1));
  EXPECT_FALSE(step_prediction({10, 10, 100}, {-1, 5, 11}, 10, 1)) << "wider than itself";
}

}  // namespace
}  // namespace gpuwatch::predict
