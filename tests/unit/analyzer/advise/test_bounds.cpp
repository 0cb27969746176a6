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

}  // namespace
}  // namespace gpuwatch::advise
