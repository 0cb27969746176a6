// SPDX-License-Identifier: Apache-2.0
// Each loader rule: the case that has the cause, and the neighbour that has not.
#include <gtest/gtest.h>

#include "analyzer/advise/diagnose.h"
#include "tests/unit/analyzer/advise/found.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;
using test::LoaderJob;

size_t complaints(const Diagnosis& diagnosis) {
  size_t count = 0;
  for (const Finding& finding : diagnosis.findings) count += finding.severity != Severity::kInfo;
  return count;
}

Diagnosis diagnose_loader(const LoaderJob& wanted) {
  test::Job job = test::make_loader_job(wanted);
  return diagnose(job.run, job.ranks);
}

TEST(DataloaderWorkers, NamesTheSmallestCountThatIsEnough) {
  LoaderJob job;  // 10 ms to make, 4 ms to use: three workers
  Diagnosis diagnosis = diagnose_loader(job);
  ASSERT_FALSE(diagnosis.findings.empty());
  const Finding& first = diagnosis.findings.front();
  EXPECT_EQ(first.id, "dataloader-workers");
  EXPECT_EQ(setting_name(first.fix.change), "num_workers");
  EXPECT_EQ(setting_value(first.fix.change), "3");
  EXPECT_EQ(first.fix.location, "/home/a/train.py:88");
  ASSERT_TRUE(first.prediction);
  LoaderJob fixed = job;
  fixed.workers = 3;
  double really = test::loader_schedule(fixed).mean_step_ms();
  EXPECT_LE(first.prediction->value.low, really);
  EXPECT_GE(first.prediction->value.high, really);
  EXPECT_NEAR(first.prediction->now, 10, 0.2);
  EXPECT_EQ(diagnosis.verdict.id, "input-bound");
}

// A dataset of one file: more workers, or a longer buffer, are nothing to it.
TEST(DataloaderWorkers, GivesEachAPartWhereOneMakesAllBatches) {
  test::Job job = test::make_loader_job({.workers = 1, .prefetch_factor = 4});
  job.process().loaders[0].num_workers = 2;
  job.process().loaders[0].prefetch_factor = 2;
  job.process().epochs[0].workers.push_back(job.process().epochs[0].workers[0]);
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  const Finding& first = *first_complaint(diagnosis.findings);
  EXPECT_EQ(first.id, "dataloader-workers");
  EXPECT_NE(first.title.find("1 of 2 workers makes all batches"), std::string::npos) << first.title;
  EXPECT_EQ(setting_name(first.fix.change), "parts");
  ASSERT_TRUE(first.prediction);
  const double really = test::loader_schedule({.workers = 2}).mean_step_ms();
  EXPECT_LE(first.prediction->value.low, really);
  EXPECT_GE(first.prediction->value.high, really);
  EXPECT_EQ(find(diagnosis, "dataloader-prefetch"), nullptr);
}

TEST(DataloaderWorkers, IsSilentWhenEnoughWorkersKeepUp) {
  LoaderJob job;
  job.workers = 4;
  job.batches = 1000;
  Diagnosis diagnosis = diagnose_loader(job);
  EXPECT_EQ(complaints(diagnosis), 0u);
  EXPECT_NE(find(diagnosis, "healthy"), nullptr);
  EXPECT_EQ(diagnosis.verdict.id, "cpu-job");
}

TEST(DataloaderWorkers, SuggestsWorkersToARunWithNone) {
  LoaderJob job;
  job.workers = 0;
  Diagnosis diagnosis = diagnose_loader(job);
  const Finding* finding = find(diagnosis, "dataloader-workers");
  ASSERT_NE(finding, nullptr);
  ASSERT_TRUE(finding->prediction);
  EXPECT_NEAR(finding->prediction->now, 14, 0.2);
  EXPECT_LT(finding->prediction->value.expected, 6);
}

TEST(DataloaderWorkers, NamesNoMoreThanTheCores) {
  LoaderJob job;
  job.cpu_count = 2;
  job.cpu_share = 1;
  job.service_ms = [](size_t) { return 40.0; };
  const Diagnosis diagnosis = diagnose_loader(job);
  const Finding* finding = find(diagnosis, "dataloader-workers");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(setting_value(finding->fix.change), "2");
}

TEST(DataloaderWorkers, DividesTheCoresAmongTheRanksOfAHost) {
  LoaderJob wanted;
  wanted.cpu_share = 1;
  wanted.service_ms = [](size_t) { return 40.0; };
  test::Job job = test::make_loader_job(wanted);
  job.process().rank = 0;
  for (int rank = 1; rank < 4; ++rank) {
    job.run.processes.push_back(job.run.processes[0]);
    job.run.processes.back().rank = rank;
  }
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  const Finding* finding = find(diagnosis, "dataloader-workers");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(setting_value(finding->fix.change), "2");  // eight cores, four ranks
}

TEST(DataloaderWorkers, GivesOnlyACeilingToAShortRun) {
  LoaderJob job;
  job.batches = 12;
  const Diagnosis diagnosis = diagnose_loader(job);
  const Finding* finding = find(diagnosis, "dataloader-workers");
  ASSERT_NE(finding, nullptr);
  EXPECT_FALSE(finding->prediction);
  ASSERT_TRUE(finding->ceiling_speedup);
  EXPECT_NEAR(*finding->ceiling_speedup, 2.5, 0.4);
}

TEST(DataloaderOversubscribed, SaysThatMoreWorkersGainNothing) {
  LoaderJob job;
  job.workers = 4;
  job.cpu_count = 4;
  job.cpu_share = 1;
  job.run_delay_share = 3;  // four workers on one core
  job.think_ms = [](size_t) { return 0.5; };
  Diagnosis diagnosis = diagnose_loader(job);
  EXPECT_EQ(find(diagnosis, "dataloader-workers"), nullptr);
  const Finding* finding = find(diagnosis, "dataloader-oversubscribed");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->severity, Severity::kInfo);
  EXPECT_LT(std::stoi(setting_value(finding->fix.change)), 4);
  EXPECT_NE(find(diagnosis, "input-decode"), nullptr);
}

TEST(DataloaderOversubscribed, IsSilentWhileWorkersGetTheirCpu) {
  LoaderJob job;
  job.workers = 4;
  job.cpu_share = 1;
  EXPECT_EQ(find(diagnose_loader(job), "dataloader-oversubscribed"), nullptr);
}

// Workers that are always at work are what training waits for, also where each wait ends with a transfer.
TEST(InputDecode, IsSeenBehindTheTransfer) {
  const auto found = [](double service_ms) {
    test::Job job = test::make_loader_job({.workers = 2,
                                           .cpu_count = 2,
                                           .cpu_share = 1,
                                           .service_ms = [=](size_t) { return service_ms; },
                                           .think_ms = [](size_t) { return 9.0; }});
    test::set_shares(job, {{Category::InputTransfer, 0.35}, {Category::InputTransform, 0.1}});
    return bool(Found(job, "input-decode"));
  };
  EXPECT_TRUE(found(40));
  EXPECT_FALSE(found(5)) << "the workers wait";
}

TEST(InputDecode, IsSilentWhereWorkersWait) {
  LoaderJob job;
  job.cpu_count = 2;
  job.service_ms = [](size_t) { return 40.0; };  // asleep, not computing
  EXPECT_EQ(find(diagnose_loader(job), "input-decode"), nullptr);
}

// Files of 24 MB, in the page cache, of which each sample uses a crop (downscaling-grids of tests/abroad: 2.3
// times as fast mapped into memory). What the batch uses must be copied anyway.
TEST(InputCacheable, KnowsWhatIsCopiedForNothing) {
  const auto job = [](uint64_t read, double io_ms, uint64_t disk_bytes = 0) {
    LoaderJob made;
    made.workers = 2;
    made.cpu_count = 2;
    made.service_ms = [](size_t) { return 80.0; };
    made.think_ms = [](size_t) { return 10.0; };
    made.describe = [=](model::Batch& batch) {
      batch.fetch_cpu_ns = batch.fetch.length();
      batch.bytes = 20'000'000;
      batch.bytes_read = read;
      batch.disk_bytes = disk_bytes;
      batch.fetch_blocked_ns = batch.fetch_io_ns = model::Ns(io_ms * 1e6);
      batch.reads = 16;
    };
    return diagnose_loader(made);
  };
  const Diagnosis whole = job(400'000'000, 70);
  const Finding* first = first_complaint(whole.findings);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->id, "input-cacheable");
  EXPECT_NE(first->title.find("381 MiB are copied from the page cache for each batch of 19.1 MiB"),
            std::string::npos)
      << first->title;
  EXPECT_GT(*first->ceiling_speedup, 2);
  EXPECT_EQ(find(whole, "input-decode"), nullptr);
  EXPECT_EQ(find(job(400'000'000, 30), "input-cacheable"), nullptr);
  EXPECT_EQ(find(job(100'000'000, 70), "input-cacheable"), nullptr);
  EXPECT_EQ(find(job(400'000'000, 70, 300'000'000), "input-cacheable"), nullptr);
}

// A neighbourhood of a pixel, for which a scene is read and decoded (hyperspectral-pixels of tests/abroad:
// two workers 1.7 times as fast, the scenes in memory 27 times).
TEST(InputDecode, KnowsWhatIsReadForNothing) {
  const auto job = [](uint64_t read, size_t sized_every = 1) {
    LoaderJob made;
    made.workers = 0;
    made.cpu_count = 2;
    made.service_ms = [](size_t) { return 100.0; };
    made.think_ms = [](size_t) { return 5.0; };
    made.describe = [=, number = size_t{0}](model::Batch& batch) mutable {
      batch.fetch_cpu_ns = batch.fetch.length();
      batch.bytes = number++ % sized_every == 0 ? 150'000 : 0;
      batch.bytes_read = read;
      batch.reads = 16;
    };
    return made;
  };
  const Diagnosis whole_scenes = diagnose_loader(job(14'000'000)), crops = diagnose_loader(job(300'000));
  EXPECT_EQ(first_complaint(whole_scenes.findings)->id, "input-decode");
  EXPECT_NE(
      find(whole_scenes, "input-decode")->fix.summary.find("13.4 MiB are read for each batch of 146 KiB"),
      std::string::npos)
      << find(whole_scenes, "input-decode")->fix.summary;
  EXPECT_EQ(first_complaint(crops.findings)->id, "dataloader-workers");
  ASSERT_NE(find(crops, "input-decode"), nullptr);
  EXPECT_EQ(find(crops, "input-decode")->fix.summary.find("read"), std::string::npos);
  // Of a long run the recorder measures every 17th batch.
  const Diagnosis few_sized = diagnose_loader(job(300'000, 17));
  EXPECT_EQ(find(few_sized, "input-decode")->fix.summary.find("read"), std::string::npos);
}

LoaderJob made_by(double cpu_share, uint32_t cpu_count) {
  LoaderJob job;
  job.workers = 0;
  job.cpu_share = cpu_share;
  job.cpu_count = cpu_count;
  job.service_ms = [](size_t) { return 100.0; };
  job.think_ms = [](size_t) { return 5.0; };
  return job;
}

TEST(InputDecode, OfATensorDatasetIsItsSamplesOneByOne) {
  test::Job job = test::make_loader_job(made_by(1, 2));
  job.process().loaders[0].dataset = "TensorDataset";
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  const Finding* finding = find(diagnosis, "input-decode");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(setting_value(finding->fix.change), "BatchSampler");
  EXPECT_NE(finding->fix.snippet.find("64, False"), std::string::npos) << finding->fix.snippet;
}

LoaderJob uneven() {
  LoaderJob job;
  job.workers = 2;
  job.prefetch_factor = 1;
  job.cpu_count = 2;
  job.batches = 600;
  job.service_ms = [](size_t i) { return i % 12 == 0 ? 60.0 : 6.0; };
  job.think_ms = [](size_t) { return 8.0; };
  return job;
}

TEST(DataloaderPrefetch, EvensOutBatchesOfUnequalTime) {
  const Diagnosis diagnosis = diagnose_loader(uneven());
  const Finding* finding = find(diagnosis, "dataloader-prefetch");
  ASSERT_NE(finding, nullptr);
  LoaderJob fixed = uneven();
  fixed.prefetch_factor = std::stoi(setting_value(finding->fix.change));
  double really = test::loader_schedule(fixed).mean_step_ms();
  ASSERT_TRUE(finding->prediction);
  EXPECT_LE(finding->prediction->value.low, really);
  EXPECT_GE(finding->prediction->value.high, really);
}

TEST(DataloaderPrefetch, IsSilentWhereBatchesAreEqual) {
  LoaderJob job = uneven();
  job.service_ms = [](size_t) { return 20.0; };
  EXPECT_EQ(find(diagnose_loader(job), "dataloader-prefetch"), nullptr);
}

// All cores compute, so that what more workers gain is open: then so is what comes on top of it.
TEST(Ranking, WhatFollowsAnOpenOptionIsABound) {
  LoaderJob job = uneven();
  job.workers = 1;
  job.cpu_count = 3;
  job.cpu_share = 1;  // no more than three workers
  job.service_ms = [](size_t i) { return i % 12 == 0 ? 120.0 : 12.0; };
  const Diagnosis diagnosis = diagnose_loader(job);
  ASSERT_GE(diagnosis.findings.size(), 2u);
  EXPECT_EQ(diagnosis.findings[0].id, "dataloader-workers");
  for (const Finding& finding : diagnosis.findings) {
    EXPECT_FALSE(finding.prediction) << finding.id;
    if (finding.is_complaint()) {
      EXPECT_TRUE(finding.ceiling_speedup) << finding.id;
    }
  }
  EXPECT_FALSE(diagnosis.together);
}

TEST(OwnLoaderThreads, CountsTheThreadsWhoseWorkFitsIntoAStep) {
  // One thread makes a batch in 30 ms without ever waiting; training takes 10 ms and waits 20.
  constexpr model::Ns kMs = 1'000'000;
  test::Job job = test::make_device_job({{.device_us = 100}}, 100);
  job.ranks[0].device_observed = true;
  model::Process& process = job.process();
  process.facts.clear();
  std::vector<model::TimeSpan> steps;
  model::Thread producer;
  producer.tid = 7;
  process.threads[0].calls.clear();
  process.devices[0].operations.clear();
  for (model::Ns i = 0; i < 100; ++i) {
    model::Ns begin = (1000 + 30 * i) * kMs;
    steps.push_back({begin, begin + 30 * kMs});
    process.threads[0].calls.push_back(
        {begin, begin + 20 * kMs, 0, 0, model::kNone, 0, trace::OpClass::Wait, 0});
    producer.calls.push_back({begin, begin + 25 * kMs, 0, 0, model::kNone, 0, trace::OpClass::Read, 0});
  }
  process.threads.push_back(producer);
  test::set_steps(job, steps);
  test::set_shares(job, {{Category::InputTransform, 20.0 / 30}});
  for (uint32_t i = 0; i < 100; ++i)
    job.rank().slices.push_back({steps[i].begin, steps[i].begin + 20 * kMs, Category::InputTransform, 0, i});
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  const Finding* finding = find(diagnosis, "dataloader-workers");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(setting_value(finding->fix.change), "3");
  ASSERT_TRUE(finding->prediction);
  EXPECT_NEAR(finding->prediction->value.expected, 10, 0.5);
}

}  // namespace
}  // namespace gpuwatch::advise
