// SPDX-License-Identifier: Apache-2.0
// "Up to" holds: what a bound takes for certain to stay, the change must leave. Each case is one where a
// program gained more than it was told.
#include <gtest/gtest.h>

#include <algorithm>

#include "analyzer/advise/ceiling.h"
#include "tests/unit/analyzer/advise/cpu_training.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;
using model::Ns;
using test::Action;
using test::LoaderJob;
using trace::OpClass;

RuleInput input_of(const test::Job& job) {
  RuleInput input{.run = job.run, .rank = job.ranks.front(), .process = job.run.processes.front()};
  input.now_ms = input.rank.mean_step_ms();
  return input;
}

// 90 ms to make a batch on the training thread, 10 ms of training: on two threads it begins with waking one.
TEST(Bounds, LeaveTheTimeThatThreadsNeedToWakeUp) {
  test::Job job = test::make_loader_job({.workers = 0,
                                         .batches = 100,
                                         .service_ms = [](size_t) { return 90.0; },
                                         .think_ms = [](size_t) { return 10.0; }});
  EXPECT_NEAR(ceiling_without_input(input_of(job), 0.9), 10, 0.05);
  job.process().facts["torch_threads"] = "1";
  EXPECT_NEAR(ceiling_without_input(input_of(job), 0.9), 10, 0.05);
  job.process().facts["torch_threads"] = "2";
  EXPECT_NEAR(ceiling_without_input(input_of(job), 0.9), 40, 0.2);
  EXPECT_NEAR(ceiling_without_input(input_of(job), 0.05), 1 / 0.95, 0.01) << "sleeps of 5 ms";
}

// A loop of the script's stays as long when workers shorten the step around it.
TEST(Bounds, OfWhatOtherChangesLeaveAreOfTheShorterStep) {
  const test::Job job = test::make_loader_job({.workers = 0, .batches = 100});
  RuleInput input = input_of(job);
  const double recorded_ms = input.now_ms;
  EXPECT_NEAR(share_of_now(input, 0.15), 0.15, 1e-9);
  input.now_ms = recorded_ms / 2;
  EXPECT_NEAR(share_of_now(input, 0.15), 0.3, 1e-9);
  EXPECT_LE(share_of_now(input, 0.9), 0.99);
  input.now_ms = 2 * recorded_ms;
  EXPECT_NEAR(share_of_now(input, 0.15), 0.15, 1e-9);
}

// 10 ms of training after 50 of waiting, on both of two cores: awake, it does not keep 8 workers from 7.5 ms
// a step.
TEST(Bounds, OfMoreWorkersAreNotThoseOfThreadsThatWakeUp) {
  test::Job job = test::make_loader_job({.workers = 1,
                                         .batches = 100,
                                         .cpu_count = 2,
                                         .service_ms = [](size_t) { return 60.0; },
                                         .think_ms = [](size_t) { return 10.0; }});
  auto loader = predict::extract_loader(job.run, job.rank());
  ASSERT_TRUE(loader);
  loader->think_cores = 2;
  loader->think_cores_known = true;
  loader->cores = 1;  // the other one was taken in this run
  EXPECT_NEAR(loader_floor_ms(input_of(job), *loader, 8), 10, 0.5);
  job.process().facts["torch_threads"] = "2";
  EXPECT_NEAR(loader_floor_ms(input_of(job), *loader, 8), 7.5, 0.5);
}

// The step is 10 ms, of which reading takes 9 and training 0.5: what a packed sample still costs is not
// known.
double bound_of_reads(uint64_t bytes, uint32_t opens, bool is_remote, const char* id) {
  LoaderJob wanted;
  wanted.cpu_count = 1;
  wanted.think_ms = [](size_t) { return 0.5; };
  wanted.describe = [=](model::Batch& batch) {
    batch.fetch_blocked_ns = batch.fetch_io_ns = 9'000'000;
    batch.bytes_read = batch.disk_bytes = bytes;
    batch.opens = opens;
    batch.reads = std::max(opens, 8u);
  };
  test::Job job = test::make_loader_job(wanted);
  if (is_remote) {
    constexpr uint32_t kMountText = 7;
    job.run.texts[kMountText] = "/data";
    job.process().mounts = {{"/data", "nfs4", "server:/data", 42, true}};
    model::Process worker;
    worker.pid = 5000;
    worker.worker_of = 0;
    model::Thread thread;
    for (const model::Batch& batch : job.process().epochs[0].batches) {
      thread.calls.push_back({batch.fetch.begin, batch.fetch.end, 0, 0, model::kNone, 0, OpClass::Fetch, 0});
      thread.calls.push_back({batch.fetch.begin + 1000, batch.fetch.begin + 9'000'000, 0, 0,
                              uint32_t(thread.io_details.size()), 0, OpClass::Read, 0});
      thread.io_details.emplace_back(4096, 0, kMountText, 0);
    }
    worker.threads = {thread};
    job.run.processes.push_back(worker);
    for (model::Worker& of_epoch : job.process().epochs[0].workers) of_epoch.process = 1;
  }
  const Found finding(job, id);
  return finding ? finding->ceiling_speedup.value_or(0) : 0;
}

TEST(Bounds, OfSmallFilesAndRemoteOnesAreThoseOfTheWholeFetch) {
  EXPECT_GT(bound_of_reads(64 * 16384, 64, false, "input-small-files"), 15);
  EXPECT_GT(bound_of_reads(8'000'000, 0, true, "input-remote-storage"), 15);
}

// 4 of 10 ms collate, and 0.5 train: whole batches also spare the rest of the samples' way.
TEST(Bounds, OfCollatingAreThoseOfTheSamples) {
  LoaderJob wanted;
  wanted.batches = 12;  // too few for a prediction
  wanted.think_ms = [](size_t) { return 0.5; };
  wanted.describe = [](model::Batch& batch) { batch.collate_ns = 4'000'000; };
  const Found finding(test::make_loader_job(wanted), "collate-cost");
  ASSERT_TRUE(finding);
  EXPECT_FALSE(finding->prediction);
  EXPECT_GT(finding->ceiling_speedup.value_or(0), 5);
}

Finding predicted(predict::Estimate step_ms) {
  Finding finding;
  finding.prediction.emplace();
  finding.prediction->value = step_ms;
  finding.prediction->speedup = {10 / step_ms.high, 10 / step_ms.expected, 10 / step_ms.low};
  return finding;
}

TEST(Bounds, OfAWideRangeAreNoLessThanWhatTheRuleKnows) {
  Finding wide = predicted({4, 5, 8});
  bound_what_is_open(wide);
  EXPECT_DOUBLE_EQ(wide.ceiling_speedup.value_or(0), 2.5);
  wide = predicted({4, 5, 8});
  wide.ceiling_speedup = 4;
  bound_what_is_open(wide);
  EXPECT_FALSE(wide.prediction);
  EXPECT_DOUBLE_EQ(wide.ceiling_speedup.value_or(0), 4);
  Finding narrow = predicted({4.9, 5, 5.1});
  narrow.ceiling_speedup = 4;
  bound_what_is_open(narrow);
  EXPECT_TRUE(narrow.prediction && !narrow.ceiling_speedup);
}

// 100 steps of 10 ms on both of two cores, half of what they compute in a library, and 16% without a core.
Found diagnose_library(double cores_used) {
  CpuTraining training;
  model::Process& process = training.job.process();
  process.cpu_count = 2;
  process.facts["torch_threads"] = "2";
  const Ns begin = training.job.rank().steps.front().step.begin;
  const Ns end = training.job.rank().steps.back().step.end;
  training.job.rank().slices = {{begin, end, Category::Compute, 0}};
  test::set_shares(training.job, {{Category::Sched, 0.16}});
  training.job.run.texts[91] =
      "/v/site-packages/tensorboardX/summary.py:7 histogram\n/home/a/train.py:55 log";
  training.job.run.texts[92] = "/v/site-packages/torch/_tensor.py:5 backward\n/home/a/train.py:80 main";
  for (int i = 0; i < 2000; ++i)
    process.threads[0].worker_stacks.push_back(
        {begin + i * (end - begin) / 2000, (end - begin) / 2000, i % 2 ? 91u : 92u, process.pid});
  for (const Ns time : {begin, end}) {
    model::MachineSample sample{};
    sample.time = time;
    sample.cpu_ns = Ns(cores_used * double(time));
    sample.cpu_total_ns = 2 * time;
    sample.cpu_idle_ns = sample.cpu_total_ns - sample.cpu_ns;
    process.machine_samples.push_back(sample);
  }
  return {training.job, "host-work"};
}

// One thread in the library, two in the model: 1.4 cores are all that they can use. The other 0.6 are those
// of a thread that writes what the library hands it.
TEST(Bounds, OfALibraryCountWhatItsThreadsTake) {
  const Found alone = diagnose_library(1.3), writing = diagnose_library(2);
  ASSERT_TRUE(alone && writing);
  EXPECT_TRUE(alone->prediction);
  EXPECT_FALSE(writing->prediction);
  EXPECT_GT(writing->ceiling_speedup.value_or(0), 6);
}

// In every tenth step torch.save() takes 5 ms, and os.replace() 10 ms more, before a launch to which the
// script takes 1.5 ms in each step.
TEST(Bounds, OfACheckpointHaveWhatFollowsIt) {
  constexpr size_t kBlocks = 20;
  const Action work{.gap_us = 50, .device_us = 1000};
  const Action sync{.op_class = OpClass::Sync, .cost_us = 2, .waits = true};
  const Action tail{.gap_us = 1500, .device_us = 10};
  std::vector<Action> ten;
  for (int i = 0; i < 10; ++i) ten.insert(ten.end(), {work, sync, tail});
  ten.back().gap_us += 10'000;
  ten.insert(ten.end() - 1, Action{.op_class = OpClass::Checkpoint, .cost_us = 5'000});
  test::Job job = test::make_device_job(ten, kBlocks);
  const auto& calls = job.process().threads[0].calls;
  std::vector<model::TimeSpan> steps;
  for (size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].op_class != OpClass::Sync) continue;
    if (!steps.empty()) steps.back().end = calls[i - 1].begin;
    steps.push_back({calls[i - 1].begin, calls.back().end});
  }
  test::set_steps(job, steps);
  test::set_shares(job, {{Category::Checkpoint, 0.12}, {Category::HostCompute, 0.6}});

  const Found checkpoint(job, "checkpoint-stall"), work_of_script(job, "host-work");
  ASSERT_TRUE(checkpoint && work_of_script);
  const auto ms_of = [](const Finding& finding, const std::string& what) {
    const auto row = std::ranges::find(finding.evidence, what, &Evidence::what);
    return row == finding.evidence.end() ? 0 : row->value;
  };
  EXPECT_NEAR(1e3 * ms_of(*checkpoint, "time to save one"), 15, 0.5);
  EXPECT_NEAR(ms_of(*work_of_script, "script between CUDA calls"), 1.5, 0.1);
  const double really_ms = test::device_step_us({work, sync, tail}, 10 * kBlocks) / 1e3;
  if (checkpoint->alone) {
    EXPECT_LE(checkpoint->alone->value.low, really_ms * 1.001);
    EXPECT_GE(checkpoint->alone->value.high, really_ms * 0.999);
  } else {
    EXPECT_GE(checkpoint->ceiling_speedup.value_or(0), job.rank().mean_step_ms() / really_ms);
  }
}

// Saving in every step leaves no step to compare with: what follows is the script's.
TEST(Bounds, OfACheckpointInEveryStepHaveTheCallAlone) {
  const Action work{.gap_us = 100, .device_us = 1000};
  const Action sync{.op_class = OpClass::Sync, .cost_us = 2, .waits = true};
  const Action save{.op_class = OpClass::Checkpoint, .cost_us = 5'000};
  test::Job job = test::make_device_job({work, sync, save, {.gap_us = 1500, .device_us = 10}}, 100);
  test::set_shares(job, {{Category::Checkpoint, 0.6}, {Category::HostCompute, 0.2}});
  const Found checkpoint(job, "checkpoint-stall");
  ASSERT_TRUE(checkpoint);
  const auto row = std::ranges::find(checkpoint->evidence, "time to save one", &Evidence::what);
  ASSERT_NE(row, checkpoint->evidence.end());
  EXPECT_NEAR(1e3 * row->value, 5, 0.2);
}

}  // namespace
}  // namespace gpuwatch::advise
