// SPDX-License-Identifier: Apache-2.0
// How many workers are proposed, what ends their number, and what is said where the recording does not tell
// whether more of them read as fast.
#include <gtest/gtest.h>

#include <random>

#include "analyzer/advise/diagnose.h"
#include "tests/unit/analyzer/advise/found.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;
using test::LoaderJob;

const Evidence* evidence(const Finding& finding, const std::string& what) {
  for (const Evidence& row : finding.evidence)
    if (row.what == what) return &row;
  return nullptr;
}

Diagnosis diagnose_job(const test::Job& job) {
  return diagnose(job.run, job.ranks);
}

// On a machine of two cores.
LoaderJob slow_batches(double service_ms, double cpu_share) {
  LoaderJob job;
  job.cpu_count = 2;
  job.cpu_share = cpu_share;
  job.service_ms = [=](size_t) { return service_ms; };
  return job;
}

// Each batch waits `io_ms` for reads, in `workers` workers.
LoaderJob reads(int workers, std::function<double(size_t)> io_ms) {
  LoaderJob job;
  job.cpu_count = 2;
  job.cpu_share = 0;
  job.workers = workers;
  job.service_ms = [=](size_t i) { return io_ms(i) + 2; };
  job.describe = [=](model::Batch& batch) {
    batch.fetch_blocked_ns = batch.fetch_io_ns = model::Ns(io_ms(batch.index) * 1e6);
    batch.bytes_read = batch.disk_bytes = 100'000;
    batch.reads = 8;
  };
  return job;
}

TEST(WorkerBound, IsNotTheCoresWhereWorkersSleep) {
  for (const int recorded : {0, 1, 2}) {
    LoaderJob job = slow_batches(40, 0);
    job.workers = recorded;
    const Diagnosis diagnosis = diagnose_job(test::make_loader_job(job));
    const Finding* finding = find(diagnosis, "dataloader-workers");
    ASSERT_NE(finding, nullptr);
    const int proposed = std::stoi(setting_value(finding->fix.change));
    EXPECT_GE(proposed, 9);  // 40 ms to make, 4 to use
    EXPECT_LE(proposed, 12);
    ASSERT_TRUE(finding->prediction);
    if (recorded == 0) continue;  // what handing over costs is assumed
    job.workers = proposed;
    const double really = test::loader_schedule(job).mean_step_ms();
    EXPECT_LE(finding->prediction->value.low, really);
    EXPECT_GE(finding->prediction->value.high, really);
  }
}

TEST(WorkerBound, IsTheCpuThatWorkersAskFor) {
  for (const auto& [cpu_share, most] : {std::pair(1.0, 2), std::pair(0.5, 4), std::pair(0.25, 8)}) {
    const Diagnosis diagnosis = diagnose_job(test::make_loader_job(slow_batches(60, cpu_share)));
    const Finding* finding = find(diagnosis, "dataloader-workers");
    ASSERT_NE(finding, nullptr);
    EXPECT_LE(std::stoi(setting_value(finding->fix.change)), most) << cpu_share;
    EXPECT_GT(std::stoi(setting_value(finding->fix.change)), most / 2) << cpu_share;
    ASSERT_NE(evidence(*finding, "a worker computes"), nullptr);
    EXPECT_NEAR(evidence(*finding, "a worker computes")->value, 100 * cpu_share, 1);
  }
}

// Here and there a batch takes 17 times as long; two cores carry five workers that are never idle.
TEST(WorkerBound, LetsWorkersWaitForASlowBatch) {
  const auto proposed = [](Category waits, double cpu_share) {
    LoaderJob wanted = slow_batches(0, cpu_share);
    wanted.workers = 3;
    wanted.batches = 300;
    wanted.service_ms = [](size_t i) { return i * 37 % 101 < 9 ? 350.0 : 20.0; };
    test::Job job = test::make_loader_job(wanted);
    test::set_shares(job, {{waits, 0.4}, {Category::InputTransform, 0.2}});
    const Diagnosis diagnosis = diagnose_job(job);
    const Finding* finding = find(diagnosis, "dataloader-workers");
    return finding ? std::stoi(setting_value(finding->fix.change)) : 0;
  };
  EXPECT_GT(proposed(Category::InputHeadOfLine, 0.36), 5);
  EXPECT_LE(proposed(Category::InputHeadOfLine, 0.36), 10);
  EXPECT_LE(proposed(Category::InputWait, 0.36), 5) << "no batch waits behind another";
  EXPECT_LE(proposed(Category::InputHeadOfLine, 0.6), 3) << "they would compute on all cores";
}

TEST(WorkerBound, SaysThatRanksShareTheCores) {
  test::Job job = test::make_loader_job(slow_batches(40, 1));
  job.process().cpu_count = 8;
  job.process().rank = 0;
  for (int rank = 1; rank < 4; ++rank) {
    job.run.processes.push_back(job.run.processes[0]);
    job.run.processes.back().rank = rank;
  }
  const Diagnosis diagnosis = diagnose_job(job);
  const Finding* finding = find(diagnosis, "dataloader-workers");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(setting_value(finding->fix.change), "2");
  const Evidence* cores = evidence(*finding, "CPU of each of 4 ranks on this machine");
  ASSERT_NE(cores, nullptr);
  EXPECT_DOUBLE_EQ(cores->value, 2);
}

TEST(WorkerBound, IsTheQuota) {
  test::Job job = test::make_loader_job(slow_batches(40, 1));
  job.process().cpu_count = 16;
  job.process().facts["cpu_quota"] = "2.000";
  const Diagnosis diagnosis = diagnose_job(job);
  const Finding* finding = find(diagnosis, "dataloader-workers");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(setting_value(finding->fix.change), "2");
}

// Docker's 64 MiB: two batches of one worker take 12.
test::Job in_shared_memory(uint64_t shm_bytes, uint64_t before_bytes = 0) {
  test::Job job = test::make_loader_job(slow_batches(40, 0.01));
  job.process().facts["shm_bytes"] = std::to_string(shm_bytes);
  const model::Ns first = job.process().epochs.front().batches.front().fetch.begin;
  for (const auto& [time, batches_bytes] :
       {std::pair(first - 1, uint64_t{0}), {first + 1, uint64_t{12} << 20}}) {
    model::MachineSample sample{};
    sample.shm_used_bytes = before_bytes + batches_bytes;
    sample.time = time;
    job.process().machine_samples.push_back(sample);
  }
  return job;
}

TEST(WorkerBound, IsWhatSharedMemoryHolds) {
  const Diagnosis small = diagnose_job(in_shared_memory(64u << 20));
  const Finding* finding = find(small, "dataloader-workers");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(setting_value(finding->fix.change), "3");
  EXPECT_NE(evidence(*finding, "size of /dev/shm"), nullptr);
  bool is_said = false;
  for (const std::string& line : small.unproposed.may_gain)
    is_said |= line.find("/dev/shm of 64 MiB") != line.npos;
  EXPECT_TRUE(is_said);
  const Diagnosis large = diagnose_job(in_shared_memory(4u << 30));
  ASSERT_NE(find(large, "dataloader-workers"), nullptr);
  EXPECT_GE(std::stoi(setting_value(find(large, "dataloader-workers")->fix.change)), 10);
}

// Who copies a data set there leaves less room, but its bytes are not the batches'.
TEST(WorkerBound, CountsNoDataSetInSharedMemory) {
  const auto workers = [](uint64_t shm_bytes, uint64_t before_bytes) {
    const Diagnosis diagnosis = diagnose_job(in_shared_memory(shm_bytes, before_bytes));
    const Finding* finding = find(diagnosis, "dataloader-workers");
    return finding ? std::stoi(setting_value(finding->fix.change)) : 0;
  };
  EXPECT_GE(workers(4u << 30, 2u << 30), 10);
  EXPECT_EQ(workers(128u << 20, 45u << 20), 3);
}

TEST(ReadScaling, OneReaderTellsNothingOfMore) {
  const test::Job job = test::make_loader_job(reads(1, [](size_t) { return 30.0; }));
  const Diagnosis diagnosis = diagnose_job(job);
  ASSERT_FALSE(diagnosis.findings.empty());
  const Finding& first = diagnosis.findings.front();
  EXPECT_EQ(first.id, "dataloader-workers");
  EXPECT_FALSE(first.prediction);
  ASSERT_TRUE(first.ceiling_speedup);
  // 32 ms to make, 4 to use; the quickest steps use a little less.
  EXPECT_LE(*first.ceiling_speedup, 8.02);
  EXPECT_GT(*first.ceiling_speedup, 4);
  // Eight would never be idle.
  EXPECT_EQ(first.fix.summary,
            "Set num_workers=9 if the storage serves 9 readers as fast as 1 (try num_workers=2 first)");
  EXPECT_FALSE(what_if(job.run, job.ranks[0], {.workers = 8}));
}

// The same waits, asleep: nothing that others could take.
TEST(ReadScaling, DoesNotConcernSleep) {
  LoaderJob wanted = reads(1, [](size_t) { return 30.0; });
  wanted.describe = [](model::Batch&) {};
  const Diagnosis diagnosis = diagnose_job(test::make_loader_job(wanted));
  const Finding* finding = find(diagnosis, "dataloader-workers");
  ASSERT_NE(finding, nullptr);
  EXPECT_TRUE(finding->prediction);
}

// A small part of a batch is read: whatever storage does, the answer is the same.
TEST(ReadScaling, LeavesShortReadsTheirPrediction) {
  LoaderJob wanted = reads(1, [](size_t) { return 0.5; });
  wanted.service_ms = [](size_t) { return 20.0; };
  const Diagnosis diagnosis = diagnose_job(test::make_loader_job(wanted));
  const Finding* finding = find(diagnosis, "dataloader-workers");
  ASSERT_NE(finding, nullptr);
  EXPECT_TRUE(finding->prediction);
}

// Three workers whose reads meet sometimes one and sometimes two others, and wait for them or do not.
test::Job met_others(bool is_shared) {
  std::mt19937 random(7);
  std::vector<double> services, thinks;
  for (size_t i = 0; i < 600; ++i) {
    services.push_back(std::uniform_real_distribution<double>(20, 30)(random));
    thinks.push_back(i % 40 < 20 ? 1 : 24);
  }
  LoaderJob wanted;
  wanted.cpu_count = 2;
  wanted.workers = 3;
  wanted.batches = 600;
  wanted.cpu_share = 0.02;
  wanted.prefetch_factor = 1;
  // Quick training keeps all readers at work, slow training but one: shared storage shows it.
  wanted.service_ms = [=](size_t i) { return services[i] * (is_shared && i % 40 < 20 ? 2.2 : 1); };
  wanted.think_ms = [=](size_t i) { return thinks[i]; };
  wanted.describe = [=](model::Batch& batch) {
    batch.fetch_io_ns = batch.fetch_blocked_ns = model::Ns(double(batch.fetch.length()) * 0.95);
    batch.bytes_read = batch.disk_bytes = 100'000;
    batch.reads = 8;
  };
  return test::make_loader_job(wanted);
}

TEST(ReadScaling, IsTakenFromReadsThatMetOthers) {
  const test::Job independent = met_others(false), shared = met_others(true);
  const predict::LoaderSetting six{.workers = 6, .prefetch_factor = 1};
  const auto faster = what_if(independent.run, independent.ranks[0], six);
  ASSERT_TRUE(faster);
  EXPECT_GT(faster->speedup.expected, 1.1);
  const Diagnosis of_shared = diagnose_job(shared);
  const Finding* finding = find(of_shared, "dataloader-workers");
  EXPECT_FALSE(finding && finding->prediction && finding->prediction->speedup.expected > 1.05);
}

// A local disk that was busy for a fifth of the time gives five times as much.
TEST(ReadScaling, IsBoundedByTheDisk) {
  LoaderJob wanted = reads(1, [](size_t) { return 30.0; });
  test::Job job = test::make_loader_job(wanted);
  for (const auto& [time, busy] : {std::pair(0.1, 0.0), std::pair(0.9, 0.1)}) {
    const model::TimeSpan steps{job.rank().steps.front().step.begin, job.rank().steps.back().step.end};
    model::MachineSample sample{};
    sample.time = steps.begin + model::Ns(time * double(steps.length()));
    sample.disk_busy_ns = model::Ns(busy * double(steps.length()));
    job.process().machine_samples.push_back(sample);
  }
  const auto two = what_if(job.run, job.ranks[0], {.workers = 2});
  ASSERT_TRUE(two);
  EXPECT_NEAR(two->value.expected, 16, 1);
}

}  // namespace
}  // namespace gpuwatch::advise
