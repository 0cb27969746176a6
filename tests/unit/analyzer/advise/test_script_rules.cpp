// SPDX-License-Identifier: Apache-2.0
// Rules about the script: the calls that have the cause, and the neighbour whose calls look alike.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "tests/unit/analyzer/advise/cpu_training.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;
using model::Ns;
using test::Action;
using trace::OpClass;
using trace::RecordKind;

constexpr Ns kSecond = 1'000 * kMs;

TEST(GcPause, CountsTheTrainingThreadsCollections) {
  CpuTraining training;
  training.call(OpClass::GarbageCollection, 3 * kMs, 1);
  expect_step(find(training.diagnose(), "gc-pause"), 10, 7);
  CpuTraining rare;
  rare.call(OpClass::GarbageCollection, 3 * kMs, 20);
  EXPECT_EQ(find(rare.diagnose(), "gc-pause"), nullptr);
}

TEST(HostWork, OnTheCpuOnlySleepingIsNamed) {
  CpuTraining training;
  training.call(OpClass::Sleep, 5 * kMs, 1);
  const Diagnosis diagnosis = training.diagnose();
  expect_step(find(diagnosis, "host-work"), 10, 5);
  EXPECT_TRUE(find(diagnosis, "host-work")->fix.summary.starts_with("Move the 5 ms of sleeping or waiting "));
  CpuTraining computing;
  computing.call(OpClass::Stat, kMs / 10, 1);
  EXPECT_EQ(find(computing.diagnose(), "host-work"), nullptr);
}

// An environment is played between two updates of many steps.
TEST(HostWork, OnTheCpuSleepsNeedNotBeInEveryStep) {
  CpuTraining often, seldom;
  often.call(OpClass::Sleep, 8 * kMs, 10);
  const Diagnosis diagnosis = often.diagnose();
  ASSERT_NE(find(diagnosis, "host-work"), nullptr);
  EXPECT_TRUE(find(diagnosis, "host-work")->may_have_to_stay);
  seldom.call(OpClass::Sleep, 8 * kMs, 25);  // four times
  EXPECT_EQ(find(seldom.diagnose(), "host-work"), nullptr);
}

constexpr char kInLibrary[] = "/v/site-packages/sklearn/metrics.py:7 auc\n/home/a/train.py:55 evaluate";
constexpr char kInScript[] = "/home/a/train.py:55 mine\n/home/a/train.py:80 main";

// 1 s of training on the CPU, 60% of it in `work`, the rest in backward().
Diagnosis diagnose_sampled_work(int samples, const char* work = kInLibrary, bool interprets = false) {
  CpuTraining training;
  model::Process& process = training.job.process();
  process.facts["torch"] = "2.13.0";
  const model::Step first = training.job.rank().steps.front().step;
  training.job.rank().slices = {
      {first.begin, training.job.rank().steps.back().step.end, Category::Compute, 0}};
  test::set_shares(training.job, {{Category::Compute, 1}});
  training.job.run.texts[91] = work;
  training.job.run.texts[92] = "/v/site-packages/torch/_tensor.py:5 backward\n/home/a/train.py:80 main";
  for (int i = 0; i < samples; ++i)
    process.threads[0].worker_stacks.push_back({first.begin + i * kSecond / samples, kSecond / samples,
                                                i % 5 < 3 ? 91u : 92u, process.pid, interprets && i % 5 < 3});
  return training.diagnose();
}

TEST(HostWork, OnTheCpuIsWhatSamplesSeeInLibraries) {
  const Diagnosis diagnosis = diagnose_sampled_work(2000);
  const Finding* finding = find(diagnosis, "host-work");
  expect_step(finding, 10, 10 * (1 - 0.6 * 0.98));
  EXPECT_EQ(finding->fix.location, "/home/a/train.py:55");
  EXPECT_NE(finding->title.find("sklearn"), std::string::npos) << finding->title;
}

TEST(HostWork, FewSamplesGiveABound) {
  const Diagnosis diagnosis = diagnose_sampled_work(60);
  const Finding* finding = find(diagnosis, "host-work");
  ASSERT_NE(finding, nullptr);
  EXPECT_FALSE(finding->prediction);
  EXPECT_GE(finding->ceiling_speedup.value_or(0), 2.5);  // 1 / 0.4
  EXPECT_LE(finding->ceiling_speedup.value_or(9), 3.9);
}

// Mining triplets in a Python loop (whale-triplets of tests/abroad): 1.52x where it is a few operations on
// whole tensors, more than the loop's own share, because a backward pass through thousands of operations goes
// with it.
TEST(HostWork, OfTheScriptsOwnPythonIsBoundedWithItsBackward) {
  const Diagnosis diagnosis = diagnose_sampled_work(200, kInScript, true);
  const Finding* finding = find(diagnosis, "host-work");
  ASSERT_NE(finding, nullptr);
  EXPECT_FALSE(finding->prediction);
  EXPECT_GE(finding->ceiling_speedup.value_or(0), 10) << "nothing is left that was seen to stay";
  EXPECT_EQ(finding->fix.location, "/home/a/train.py:55");
  EXPECT_NE(finding->title.find("mine"), std::string::npos) << finding->title;
  EXPECT_EQ(find(diagnose_sampled_work(200, kInScript), "host-work"), nullptr) << "long calls into C";
}

// The tag loop of a CRF (chord-tags of tests/abroad): 3.6x where it is an operation on whole tensors. More
// threads came first, which operations that short have no use for.
TEST(LaunchBound, OnTheCpuIsALoopInTheScriptsPartOfTheModel) {
  constexpr char kAdvance[] =
      "/home/a/crf.py:58 Crf.advance\n/home/a/crf.py:69 Crf.forward\n"
      "/v/site-packages/torch/nn/modules/module.py:1789 Module._call_impl\n/home/a/train.py:80 main";
  const Diagnosis diagnosis = diagnose_sampled_work(200, kAdvance, true);
  const Finding* finding = find(diagnosis, "launch-bound");
  ASSERT_NE(finding, nullptr);
  EXPECT_NE(finding->fix.summary.find("Crf.advance()"), std::string::npos) << finding->fix.summary;
  EXPECT_EQ(finding->fix.location, "/home/a/crf.py:58");
  EXPECT_GE(finding->ceiling_speedup.value_or(0), 10) << "nothing is left that was seen to stay";
  EXPECT_EQ(find(diagnose_sampled_work(200, kAdvance), "launch-bound"), nullptr) << "long operations";
}

// An LSTM cell, step by step, on a CPU.
TEST(LaunchBound, OnTheCpuIsPythonBetweenShortOperations) {
  constexpr char kCell[] =
      "/v/site-packages/torch/nn/modules/rnn.py:9 forward\n"
      "/v/site-packages/torch/nn/modules/module.py:1500 _call_impl\n/home/a/train.py:55 unroll";
  const Diagnosis diagnosis = diagnose_sampled_work(200, kCell, true);
  const Finding* finding = find(diagnosis, "launch-bound");
  ASSERT_NE(finding, nullptr);
  EXPECT_NEAR(finding->lost_share, 0.6, 0.01);
  EXPECT_EQ(finding->fix.location, "/home/a/train.py:55");
  EXPECT_FALSE(finding->prediction || finding->ceiling_speedup) << "what larger operations gain is not known";
  EXPECT_EQ(find(diagnosis, "host-work"), nullptr);
  EXPECT_EQ(find(diagnose_sampled_work(200, kCell), "launch-bound"), nullptr) << "long operations";
  const Diagnosis optimizer =
      diagnose_sampled_work(200,
                            "/v/site-packages/torch/optim/adam.py:9 _multi_tensor_adam\n"
                            "/home/a/train.py:55 main",
                            true);
  ASSERT_NE(find(optimizer, "launch-bound"), nullptr);
  EXPECT_NE(find(optimizer, "launch-bound")->fix.summary.find("fused=True"), std::string::npos);
}

constexpr size_t kSteps = 100;

Diagnosis diagnose_device(const std::vector<Action>& step, Category category, double share) {
  test::Job job = test::make_device_job(step, kSteps);
  test::set_shares(job, {{category, share}});
  return diagnose(job.run, job.ranks);
}

TEST(HostWork, IsPredictedByReplayOnADevice) {
  const Action sync{.op_class = OpClass::Sync, .cost_us = 2, .waits = true};
  const std::vector<Action> step = {{.device_us = 2000}, sync, {.gap_us = 3000, .device_us = 100}};
  const Diagnosis diagnosis = diagnose_device(step, Category::HostCompute, 0.5);
  const Finding* finding = find(diagnosis, "host-work");
  ASSERT_NE(finding, nullptr);
  ASSERT_TRUE(finding->prediction);
  const double really = test::device_step_us({{.device_us = 2000}, sync, {.device_us = 100}}, kSteps) / 1e3;
  EXPECT_LE(finding->prediction->value.low, really * 1.001);
  EXPECT_GE(finding->prediction->value.high, really * 0.999);
}

void expect_really(const Diagnosis& diagnosis, const std::vector<Action>& fixed) {
  const Finding* finding = find(diagnosis, "host-work");
  ASSERT_NE(finding, nullptr);
  ASSERT_TRUE(finding->prediction);
  const double really = test::device_step_us(fixed, kSteps) / 1e3;
  EXPECT_LE(finding->prediction->value.low, really * 1.001);
  EXPECT_GE(finding->prediction->value.high, really * 0.999);
}

// An error rate of predictions that are fetched for it (plate-error-rate of tests/abroad: 24.2 ms, 9.4 where
// it is every 50 steps, 11.8 with the fetch alone). A loss is fetched whatever the script does next.
TEST(HostWork, NeedsTheResultsThatItFetches) {
  Action fetch{
      .op_class = OpClass::Copy, .device_us = 5, .waits = true, .kind = RecordKind::CopyD2H, .bytes = 16384};
  // Behind a wait the host's way to these launches shows.
  const auto step = [](std::vector<Action> begin, double work_us) {
    for (int i = 0; i < 11; ++i) begin.push_back({.gap_us = i ? 90 : work_us, .device_us = 20});
    return begin;
  };
  const Action train{.device_us = 1500};
  expect_really(diagnose_device(step({train, fetch}, 3000), Category::HostCompute, 0.55), step({train}, 0));
  fetch.bytes = 4;
  expect_really(diagnose_device(step({train, fetch}, 3000), Category::HostCompute, 0.55),
                step({train, fetch}, 0));
}

// A ranking metric in Python of the scores that it fetches: 61 ms, 43 where it is every 50 steps, and as long
// without the wait alone. Of a loss the wait is what goes.
TEST(HostWork, OnDataThatItFetchesIsTheCauseOfTheWait) {
  const auto diagnose = [](uint64_t bytes, double work_us, double share, double copy_us = 5) {
    const Action fetch{.op_class = OpClass::Copy,
                       .device_us = copy_us,
                       .waits = true,
                       .kind = RecordKind::CopyD2H,
                       .bytes = bytes};
    return diagnose_device({{.gap_us = work_us, .device_us = 40'000}, fetch}, Category::HostCompute, share);
  };
  const Diagnosis data = diagnose(1 << 20, 14'000, 0.25);
  ASSERT_FALSE(data.findings.empty());
  EXPECT_EQ(data.findings.front().id, "host-work");
  const Finding* later = find(data, "sync-per-step");
  ASSERT_NE(later, nullptr);
  EXPECT_TRUE(later->is_alternative) << "to read the data one step later gains as much";
  const auto only = [](const Diagnosis& diagnosis) {
    if (diagnosis.findings.empty() || find(diagnosis, "host-work")) return std::string();
    const Finding& first = diagnosis.findings.front();
    return first.is_alternative ? "alternative" : first.id;
  };
  EXPECT_EQ(only(diagnose(4, 14'000, 0.25)), "sync-per-step");
  EXPECT_EQ(only(diagnose(1 << 20, 1700, 0.04)), "sync-per-step") << "too little for a finding of its own";
  EXPECT_EQ(only(diagnose(1 << 25, 14'000, 0.25, 18'000)), "sync-per-step") << "the copy goes, too";
}

// An augmentation in NumPy of what the loader had pinned (sound-mixup of tests/abroad: 47.8 ms, 15.4 on the
// device, 17.4 with copies that are still pageable).
TEST(HostWork, OnceMovedLeavesTheBatchPinned) {
  const Action pinned{
      .op_class = OpClass::Copy, .device_us = 100, .kind = RecordKind::CopyH2D, .bytes = 1 << 20};
  Action batch = pinned;
  batch.device_us = 1000;
  batch.gap_us = 3000;
  batch.waits = batch.pageable = true;
  const Action train{.device_us = 1500};
  test::Job job = test::make_device_job({pinned, batch, train}, kSteps);
  test::set_shares(job, {{Category::HostCompute, 0.5}});
  model::Loader& loader = test::add_loader(job);
  loader.pin_memory = 1;
  expect_really(diagnose(job.run, job.ranks), {pinned, pinned, train});
  loader.pin_memory = 0;
  batch.gap_us = 0;
  expect_really(diagnose(job.run, job.ranks), {pinned, batch, train});
}

TEST(HostWork, LaunchesCloseTogetherAreNone) {
  const std::vector<Action> step(50, Action{.gap_us = 60, .cost_us = 4, .device_us = 3});
  EXPECT_EQ(find(diagnose_device(step, Category::LaunchDispatch, 0.8), "host-work"), nullptr);
}

TEST(DebugLeftOn, ReadsTheSwitchesThatApply) {
  CpuTraining training;
  training.job.process().facts["CUDA_LAUNCH_BLOCKING"] = "1";
  EXPECT_EQ(find(training.diagnose(), "debug-left-on"), nullptr);  // no CUDA in this job
  training.job.process().facts["TORCH_DISTRIBUTED_DEBUG"] = "INFO";
  EXPECT_EQ(find(training.diagnose(), "debug-left-on"), nullptr);
  training.job.process().facts["anomaly_mode"] = "on";
  const Diagnosis diagnosis = training.diagnose();
  ASSERT_NE(find(diagnosis, "debug-left-on"), nullptr);
  EXPECT_EQ(setting_name(find(diagnosis, "debug-left-on")->fix.change), "anomaly_mode");
}

// Keras calls one short operation after another because it was told to.
TEST(LaunchBound, AnEagerJobIsSentToTheSwitchFirst) {
  CpuTraining training;
  model::Process& process = training.job.process();
  const Ns begin = training.job.rank().steps.front().step.begin,
           end = training.job.rank().steps.back().step.end;
  training.job.rank().slices = {{begin, end, Category::Compute, 0}};
  test::set_shares(training.job, {{Category::Compute, 1}});
  process.facts["tensorflow"] = "2.21.0";
  training.job.run.texts[71] =
      "/v/site-packages/tensorflow/python/eager/execute.py:9 quick_execute\n/home/a/train.py:40 main";
  for (Ns time = begin; time < end; time += 5 * kMs)
    process.threads[0].worker_stacks.push_back({time, 5 * kMs, 71, process.pid, true});
  const auto summary = [&] {
    const Diagnosis diagnosis = training.diagnose();
    const Finding* finding = find(diagnosis, "launch-bound");
    return finding ? finding->fix.summary : "not found";
  };
  EXPECT_NE(summary().find("larger batch"), std::string::npos) << summary();
  process.facts["keras_run_eagerly"] = "on";
  EXPECT_NE(summary().find("eager mode"), std::string::npos) << summary();
  EXPECT_EQ(first_complaint(training.diagnose().findings)->id, "debug-left-on");
}

TEST(StartupShare, NeedsAShareAndSeconds) {
  CpuTraining training;
  model::Process& process = training.job.process();
  std::vector<model::TimeSpan> later;
  for (const attribute::StepAttribution& it : training.job.rank().steps)
    later.push_back({it.step.begin + 100 * kSecond, it.step.end + 100 * kSecond});
  test::set_steps(training.job, later);
  const Ns first = later.front().begin;
  process.start = first - 80 * kSecond;
  process.threads[0].calls.insert(
      process.threads[0].calls.begin(),
      model::HostCall{process.start, process.start + 60 * kSecond, 0, 0, model::kNone, 0, OpClass::Stat, 0});
  training.job.run.texts[77] = "/home/a/data.py:31 Images.__init__\n/home/a/train.py:5 <module>";
  process.threads[0].stacks.insert(process.threads[0].stacks.begin(), {process.start, 77});
  const Diagnosis diagnosis = training.diagnose();
  const Finding* finding = find(diagnosis, "startup-share");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(setting_name(finding->fix.change), "dataset scan");
  EXPECT_EQ(finding->fix.location, "/home/a/data.py:31");
  EXPECT_NEAR(*finding->ceiling_speedup, 81.0 / 21, 0.01);  // 60 of 81 s: imports and training remain
  training.job.run.texts[77] =
      "<frozen importlib._bootstrap_external>:1073 get_data\n/home/a/train.py:5 <module>";
  const Diagnosis cold = training.diagnose();
  EXPECT_EQ(setting_name(find(cold, "startup-share")->fix.change), "reading files");
  EXPECT_NE(find(cold, "startup-share")->fix.summary.find("fresh container"), std::string::npos);
  training.job.run.texts.erase(77);
  EXPECT_EQ(setting_name(find(training.diagnose(), "startup-share")->fix.change), "reading files");
  process.last_seen = first + 1000 * kSecond;
  EXPECT_EQ(find(training.diagnose(), "startup-share"), nullptr);
  process.last_seen = training.job.rank().steps.back().step.end;
  process.start = first - 50 * kSecond;
  process.threads[0].calls.front() = {
      process.start, process.start + 9 * kSecond, 0, 0, model::kNone, 0, OpClass::Stat, 0};
  EXPECT_EQ(find(training.diagnose(), "startup-share"), nullptr);
  process.threads[0].calls.front().end = process.start + 30 * kSecond;
  EXPECT_NE(find(training.diagnose(), "startup-share"), nullptr);
}

TEST(Hang, SaysWhatTheTrainingThreadWaitsIn) {
  CpuTraining training;
  model::Process& process = training.job.process();
  process.end_state = model::EndState::kKilledOrRunning;
  process.is_running = true;
  training.call(OpClass::OptimizerStep, kMs, 1);
  training.job.run.operations[0].name = "ncclAllReduce";
  process.threads[0].open_calls = {{process.last_seen, 0, 0}};
  process.alive_until = process.last_seen + 300 * kSecond;
  const Diagnosis diagnosis = training.diagnose();
  const Finding* finding = find(diagnosis, "hang");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->severity, Severity::kMajor);
  EXPECT_NE(finding->title.find("ncclAllReduce for 300 s"), std::string::npos) << finding->title;
  EXPECT_TRUE(diagnosis.verdict.sentence.starts_with("NO PROGRESS for 300 s: "))
      << diagnosis.verdict.sentence;
  process.alive_until = process.last_seen + 30 * kSecond;
  EXPECT_EQ(find(training.diagnose(), "hang"), nullptr);
  process.alive_until = process.last_seen + 300 * kSecond;
  process.end_state = model::EndState::kExited;
  EXPECT_EQ(find(training.diagnose(), "hang"), nullptr);
}

TEST(Hang, BeforeTheFifthStepToo) {
  CpuTraining training;
  training.job.rank().steps.clear();
  training.job.rank().series.steps.clear();
  model::Process& process = training.job.process();
  process.end_state = model::EndState::kKilledOrRunning;
  process.is_running = true;
  process.alive_until = process.start + 500 * kSecond;
  EXPECT_NE(find(training.diagnose(), "hang"), nullptr);
}

TEST(EvaluationShare, ComparesEvaluationWithTheRun) {
  CpuTraining training;
  training.call(OpClass::OptimizerStep, kMs, 1);
  model::Process& process = training.job.process();
  process.start = training.job.rank().steps.front().step.begin - 1;
  const Ns end = training.job.rank().steps.back().step.end;
  const auto evaluate_for = [&](Ns length) {
    process.last_seen = end + length;
    process.threads[0].calls.push_back({end, end + length, 2, 0, model::kNone, 0, OpClass::LoaderNext, 0});
    return training.diagnose();
  };
  EXPECT_EQ(find(evaluate_for(100 * kMs), "evaluation-share"), nullptr);
  process.threads[0].calls.pop_back();
  const Diagnosis diagnosis = evaluate_for(kSecond);
  const Finding* finding = find(diagnosis, "evaluation-share");
  ASSERT_NE(finding, nullptr);
  EXPECT_NEAR(*finding->ceiling_speedup, 2, 0.01);
}

// Every fifth step is an evaluation that waits 4 ms of its 10 for the workers' first batch, and 1 ms for
// their end.
TEST(PersistentWorkers, OfAnEvaluationToo) {
  CpuTraining training;
  training.call(OpClass::OptimizerStep, kMs, 1);
  model::Process& process = training.job.process();
  attribute::RankAttribution& rank = training.job.rank();
  process.start = rank.steps.front().step.begin - 1;
  model::Loader loader;
  loader.num_workers = 2;
  loader.persistent_workers = 0;
  loader.location = "train.py:7";
  process.loaders.push_back(loader);
  const uint32_t index = uint32_t(process.loaders.size() - 1);
  const auto steps = std::exchange(rank.series.steps, {});
  for (size_t i = 0; i < steps.size(); ++i) {
    if (i % 5 != 2) {
      rank.series.steps.push_back(steps[i]);
      continue;
    }
    const Ns begin = steps[i].begin;
    rank.series.evaluations.push_back({begin, steps[i].end});
    model::LoaderEpoch& epoch = process.epochs.emplace_back();
    epoch.loader = index;
    epoch.start = {begin, begin + kMs};
    epoch.batches.resize(2);
    epoch.batches[0].next = {begin + kMs, begin + 4 * kMs};
    epoch.batches[1].next = {begin + 8 * kMs, begin + 9 * kMs};
  }
  std::erase_if(rank.steps, [&](const attribute::StepAttribution& step) {
    return std::ranges::find(rank.series.evaluations, step.step.begin, &model::TimeSpan::begin) !=
           rank.series.evaluations.end();
  });
  const Diagnosis diagnosis = training.diagnose();
  const Finding* finding = find(diagnosis, "dataloader-persistent-workers");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->fix.location, "train.py:7");
  EXPECT_TRUE(finding->is_of_the_run);
  EXPECT_NEAR(finding->lost_share, 19 * 4 / 1000.0, 0.005);
  EXPECT_GE(*finding->ceiling_speedup, 1 / (1 - 19 * 5 / 1000.0) - 0.005);
  process.loaders[index].persistent_workers = 1;
  EXPECT_EQ(find(training.diagnose(), "dataloader-persistent-workers"), nullptr);
}

}  // namespace
}  // namespace gpuwatch::advise
