// SPDX-License-Identifier: Apache-2.0
// Jobs whose steps are not alike, that are short, or that end early: what is said of them, and the neighbour
// of which it is not.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "analyzer/advise/input_seen.h"
#include "analyzer/advise/long_steps.h"
#include "analyzer/model/pipe_reader.h"
#include "tests/unit/analyzer/advise/own_loop.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;
using model::Ns;
using trace::OpClass;

// As nanoGPT evaluates: 200 steps of 20 ms, every 20th with `more_ms` more.
std::vector<double> every_20th(double more_ms) {
  std::vector<double> lengths(200, 20);
  for (size_t i = 10; i < lengths.size(); i += 20) lengths[i] += more_ms;
  return lengths;
}

TEST(LongSteps, AreNamedWithTheirDistance) {
  OwnLoop training(every_20th(260));
  for (size_t i = 0; i < 200; ++i) training.call(i, OpClass::Sleep, 1, 2, "/home/me/train.py:300 <module>");
  training.call(30, OpClass::GarbageCollection, 20, 3,
                "/home/me/train.py:218 estimate_loss\n/home/me/train.py:264 <module>");
  const Diagnosis diagnosis = training.diagnose();
  const Finding* finding = find(diagnosis, "long-steps");
  ASSERT_NE(finding, nullptr);
  EXPECT_NE(finding->title.find("every 20th step takes 260 ms more"), std::string::npos) << finding->title;
  EXPECT_NE(finding->title.find("in estimate_loss"), std::string::npos) << finding->title;
  EXPECT_EQ(finding->fix.location, "/home/me/train.py:218");
  const double share = 10 * 260.0 / (200 * 20 + 10 * 260);
  EXPECT_NEAR(finding->lost_share, share, 1e-3);
  ASSERT_TRUE(finding->ceiling_speedup);
  EXPECT_NEAR(*finding->ceiling_speedup, 1 / (1 - share), 1e-3);
  EXPECT_FALSE(finding->prediction);
}

// As PPO does: 16 minibatches, then a rollout.
OwnLoop with_rollouts() {
  std::vector<double> lengths(160, 5);
  for (size_t i = 16; i < lengths.size(); i += 16) lengths[i] += 100;
  return OwnLoop(lengths);
}

// The training thread is seen every 2 ms, in the first of these stacks for 5 ms of each step, then in the
// others by turns.
Diagnosis seen_in(OwnLoop training, const std::vector<std::string>& stacks) {
  test::Job& job = training.job;
  for (uint32_t i = 0; i < stacks.size(); ++i) job.run.texts[i + 1] = stacks[i];
  uint32_t samples = 0;
  for (Ns at = 0; at < training.step(159).end - kStart; at += 2 * kMs) {
    const auto& steps = job.rank().steps;
    const auto step = std::ranges::find_if(steps, [&](const auto& s) { return s.step.end > kStart + at; });
    const bool is_first = kStart + at - step->step.begin < 5 * kMs;
    const uint32_t text = is_first ? 1 : 2 + ++samples % uint32_t(stacks.size() - 1);
    job.process().threads[0].worker_stacks.push_back({kStart + at, 2 * kMs, text, job.process().pid});
  }
  return training.diagnose();
}

constexpr const char* kUpdate = "/home/me/train.py:40 update\n/home/me/train.py:90 <module>";

TEST(LongSteps, ARolloutNeedsNoStack) {
  const Diagnosis diagnosis = with_rollouts().diagnose();
  const Finding* finding = find(diagnosis, "long-steps");
  ASSERT_NE(finding, nullptr);
  EXPECT_NE(finding->title.find("every 16th step takes 100 ms more"), std::string::npos) << finding->title;
  EXPECT_EQ(finding->fix.location, "");
}

// Its environment computes: no call of it is recorded, but the training thread is seen in it.
TEST(LongSteps, AreNamedByWhereTheTrainingThreadIsSeen) {
  const Diagnosis diagnosis =
      seen_in(with_rollouts(), {kUpdate, "/home/me/env.py:20 Env.step\n/home/me/train.py:60 rollout"});
  const Finding* finding = find(diagnosis, "long-steps");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->fix.location, "/home/me/env.py:20");
}

// A figure every 16th step: of most samples the user's line is deeper than stacks are recorded.
TEST(LongSteps, OfAPackageNameItAndItsCaller) {
  const Diagnosis diagnosis = seen_in(
      with_rollouts(), {kUpdate, "/v/site-packages/matplotlib/axis.py:327 Tick._apply_params",
                        "/v/site-packages/matplotlib/text.py:12 Text.draw",
                        "/v/site-packages/matplotlib/pyplot.py:9 subplots\n/home/me/train.py:60 <module>"});
  const Finding* finding = find(diagnosis, "long-steps");
  ASSERT_NE(finding, nullptr);
  EXPECT_NE(finding->title.find("in matplotlib"), std::string::npos) << finding->title;
  EXPECT_EQ(finding->fix.location, "/home/me/train.py:60");
}

// What such a step leaves behind may make others longer: garbage.
TEST(LongSteps, MayMakeOthersLonger) {
  std::vector<double> lengths(200, 10);
  for (size_t i = 19; i < lengths.size(); i += 20) lengths[i] = 210;
  for (size_t i = 3; i < lengths.size(); i += 4) lengths[i] += 5;
  const Diagnosis diagnosis = OwnLoop(lengths).diagnose();
  const Finding* finding = find(diagnosis, "long-steps");
  ASSERT_NE(finding, nullptr);
  const double mean = std::accumulate(lengths.begin(), lengths.end(), 0.0) / double(lengths.size());
  EXPECT_NEAR(finding->ceiling_speedup.value_or(0), mean / 10, 0.02);
}

// A host that runs ahead of its GPU and logs the loss every tenth step: nine short steps, and one in which it
// waits for the GPU to finish all ten.
TEST(LongSteps, WaitingForABusyGpuIsNone) {
  std::vector<double> lengths(200, 3);
  for (size_t i = 9; i < lengths.size(); i += 10) lengths[i] = 270;
  OwnLoop training(lengths);
  ASSERT_NE(find(training.diagnose(), "long-steps"), nullptr);  // on a CPU it is work
  training.job.process().devices.resize(1);
  training.job.rank().device = 0;
  training.job.rank().device_observed = true;
  EXPECT_EQ(find(training.diagnose(), "long-steps"), nullptr);
}

// Sentences of uneven lengths: some steps have more of the same work.
TEST(LongSteps, MoreOfTheSameWorkIsNone) {
  std::vector<double> lengths(200, 20);
  for (const size_t i : {3, 17, 90, 101, 160}) lengths[i] = 1000;
  OwnLoop training(lengths);
  training.job.run.texts[1] = "/home/me/train.py:40 forward\n/home/me/train.py:90 <module>";
  for (Ns at = kStart; at < training.step(199).end; at += 10 * kMs)
    training.job.process().threads[0].worker_stacks.push_back({at, 10 * kMs, 1, training.job.process().pid});
  EXPECT_EQ(find(training.diagnose(), "long-steps"), nullptr);
}

TEST(LongSteps, OneAfterTheOtherHaveNoDistance) {
  std::vector<double> lengths(200, 20);
  for (size_t i = 50; i < 70; ++i) lengths[i] = 500;
  const Diagnosis diagnosis = OwnLoop(lengths).diagnose();
  ASSERT_NE(find(diagnosis, "long-steps"), nullptr);
  EXPECT_NE(find(diagnosis, "long-steps")->title.find("20 of 200 steps"), std::string::npos);
}

TEST(LongSteps, SmallOnesAreNone) {
  OwnLoop training(every_20th(15));
  EXPECT_EQ(find(training.diagnose(), "long-steps"), nullptr);
}

TEST(LongSteps, FewAtRandomAreTheMachine) {
  std::vector<double> lengths(200, 20);
  for (const size_t i : {3, 17, 90, 101, 160}) lengths[i] = 100;
  EXPECT_EQ(find(OwnLoop(lengths).diagnose(), "long-steps"), nullptr);
  for (const size_t i : {3, 17, 90, 101, 160}) lengths[i] = 1000;  // half of the time
  const Diagnosis diagnosis = OwnLoop(lengths).diagnose();
  ASSERT_NE(find(diagnosis, "long-steps"), nullptr);
  EXPECT_NE(find(diagnosis, "long-steps")->title.find("5 of 200 steps"), std::string::npos);
}

// A busy machine: short steps lose their CPU now and then, at no regular distance.
TEST(LongSteps, TimeSlicesOfOthersAreNone) {
  std::vector<double> lengths(150, 1);
  for (size_t i = 0; i < 23; ++i) lengths[(i * i * 7) % 150] = 8;
  EXPECT_EQ(find(OwnLoop(lengths).diagnose(), "long-steps"), nullptr);
}

// An epoch's first batch is late every 20th step: the loader's findings say so.
TEST(LongSteps, WhatTheLoaderExplainsIsTheLoaders) {
  OwnLoop training(every_20th(260));
  for (attribute::StepAttribution& step : training.job.rank().steps) {
    const Ns wait = step.step.end - step.step.begin - 20 * kMs;
    step.times[size_t(Category::Compute)] -= wait;
    step.times[size_t(Category::InputStartup)] += wait;
  }
  EXPECT_EQ(find(training.diagnose(), "long-steps"), nullptr);
}

// Rollouts of an environment that sleeps for 150 of 260 ms: 23% of the time by the sleeps, 38% by the steps.
TEST(LongSteps, AreNotToldAgainWhereTheirLineIs) {
  OwnLoop training(every_20th(240));
  for (size_t i = 10; i < 200; i += 20) training.call(i, OpClass::Sleep, 1, 150, "/home/me/env.py:29 step");
  const Diagnosis diagnosis = training.diagnose();
  ASSERT_NE(find(diagnosis, "host-work"), nullptr);
  EXPECT_EQ(find(diagnosis, "host-work")->fix.location, "/home/me/env.py:29");
  EXPECT_EQ(find(diagnosis, "long-steps"), nullptr);
  OwnLoop elsewhere(every_20th(480));
  for (size_t i = 10; i < 200; i += 20) {
    elsewhere.call(i, OpClass::Sleep, 1, 100, "/home/me/env.py:29 step");
    elsewhere.call(i, OpClass::GarbageCollection, 150, 200, "/home/me/train.py:50 evaluate");
  }
  EXPECT_NE(find(elsewhere.diagnose(), "long-steps"), nullptr);
}

TEST(LongSteps, ABusyMachineDoesNotHideThem) {
  OwnLoop training(every_20th(260));
  for (attribute::StepAttribution& step : training.job.rank().steps) {
    const Ns delayed = (step.step.end - step.step.begin) * 6 / 10;
    step.times[size_t(Category::Compute)] -= delayed;
    step.times[size_t(Category::Sched)] += delayed;
  }
  for (size_t i = 0; i < 200; i += 7) {  // and makes others long
    attribute::StepAttribution& step = training.job.rank().steps[i];
    step.step.end += 100 * kMs;
    step.times[size_t(Category::Sched)] += 100 * kMs;
  }
  const Diagnosis diagnosis = training.diagnose();
  ASSERT_NE(find(diagnosis, "long-steps"), nullptr);
  EXPECT_NE(find(diagnosis, "long-steps")->title.find("every 20th step"), std::string::npos);
}

// --- killed, cut off, short

TEST(Killed, IsNotHealthy) {
  test::Job job = test::make_device_job({{.device_us = 500}}, 100);
  test::set_shares(job, {});
  EXPECT_EQ(diagnose(job.run, job.ranks).verdict.id, "healthy");
  job.process().end_state = model::EndState::kKilledOrRunning;
  job.run.operations.push_back({"cudaStreamSynchronize", OpClass::Sync});
  job.process().threads[0].open_calls = {
      {job.process().last_seen, uint16_t(job.run.operations.size() - 1), 0}};
  const Verdict killed = diagnose(job.run, job.ranks).verdict;
  EXPECT_EQ(killed.id, "cannot-tell");
  EXPECT_NE(killed.sentence.find("KILLED in cudaStreamSynchronize after 100 steps"), std::string::npos)
      << killed.sentence;
  job.process().is_running = true;
  EXPECT_EQ(diagnose(job.run, job.ranks).verdict.id, "healthy");
}

TEST(Killed, WhileItWaitedForAPeerIsNoCpuJob) {
  test::Job job = test::make_loader_job({.workers = 4});
  test::set_shares(job, {});
  job.process().end_state = model::EndState::kKilledOrRunning;
  EXPECT_EQ(diagnose(job.run, job.ranks).verdict.id, "cannot-tell");
}

TEST(Stopped, SaysHowMuchWasSeen) {
  OwnLoop training(std::vector<double>(100, 20));
  training.call(99, OpClass::Sleep, 1, 19, "/home/me/train.py:1 f");
  training.job.process().last_seen += 8'000 * kMs;
  EXPECT_FALSE(says(training.diagnose().limits, "the first"));
  training.job.run.stopped = {"recording stopped at the size limit"};
  EXPECT_TRUE(says(training.diagnose().limits,
                   "The report is about the first 2 s (100 steps) of 10 s, 20% of the run"));
}

// What torch.profiler's schedule(active=3) leaves.
TEST(FewSteps, GiveUpperBounds) {
  test::Job job = test::make_device_job(
      {{.device_us = 500}, {.op_class = OpClass::GarbageCollection, .gap_us = 10, .cost_us = 700}}, 3);
  test::set_shares(job, {{Category::Gc, 0.5}});
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  EXPECT_EQ(diagnosis.verdict.id, "host-bound");
  const Finding* finding = find(diagnosis, "gc-pause");
  ASSERT_NE(finding, nullptr);
  EXPECT_FALSE(finding->prediction);
  EXPECT_TRUE(finding->ceiling_speedup);
}

// 1 s of 3 s; the user of the notebook was away for 10 s more.
TEST(Pauses, AreNeitherTrainingNorEvaluation) {
  OwnLoop training(std::vector<double>(100, 20));
  std::vector<model::TimeSpan> steps;
  for (size_t i = 0; i < 100; ++i) {
    const Ns begin = kStart + Ns(i) * 20 * kMs + (i > 50 ? 1'000 * kMs : 0) + (i > 80 ? 10'000 * kMs : 0);
    steps.push_back({begin, begin + 20 * kMs});
  }
  test::set_steps(training.job, steps);
  model::StepSeries& series = training.job.rank().series;
  series.evaluations = {{steps[50].end, steps[51].begin}};
  series.pauses = {{{steps[80].end, steps[81].begin}, model::Pause::Kind::kPrompt}};
  const Diagnosis diagnosis = training.diagnose();
  const Finding* finding = find(diagnosis, "evaluation-share");
  ASSERT_NE(finding, nullptr);
  EXPECT_NEAR(*finding->ceiling_speedup, 1.5, 0.02);
}

TEST(Pauses, AreSaidWithTheirPlace) {
  OwnLoop training(std::vector<double>(100, 20));
  model::StepSeries& series = training.job.rank().series;
  ASSERT_GT(series.steps.size(), 81u);
  series.steps[80].is_interrupted = true;
  series.pauses = {
      {{series.steps[80].begin, series.steps[80].begin + 15'000 * kMs}, model::Pause::Kind::kPrompt}};
  EXPECT_TRUE(says(training.diagnose().limits, "15 s between steps 80 and 81 were no training"));
}

}  // namespace
}  // namespace gpuwatch::advise
