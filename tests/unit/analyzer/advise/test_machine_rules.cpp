// SPDX-License-Identifier: Apache-2.0
// Rules about the machine: the samples that have the cause, and the neighbour whose samples look alike.
#include <gtest/gtest.h>

#include "analyzer/advise/diagnose.h"
#include "analyzer/advise/machine.h"
#include "tests/unit/analyzer/advise/found.h"

namespace gpuwatch::advise {
namespace {

using model::Ns;

constexpr double kSecond = 1e9;

// A machine as it was for all of the run. Rates are a second of wall time.
struct Machine {
  double cores = 8, job_cores = 1, worker_cores = 0, other_child_cores = 0, other_cores = 0, steal_cores = 0;
  double throttled_s = 0, run_delay_s = 0, memory_stall_s = 0, faults = 0, swap_in_bytes = 0;
  double available_bytes = 8e9, shm_used_bytes = 0;
};

void sample(test::Job& job, const Machine& machine) {
  const Ns begin = job.rank().steps.front().step.begin, end = job.rank().steps.back().step.end;
  constexpr int kSamples = 8;
  for (int i = 0; i <= kSamples; ++i) {
    model::MachineSample sample{};
    sample.time = begin + (end - begin) * i / kSamples;
    const double seconds = double(sample.time) / kSecond;
    const auto counted = [&](double rate) { return Ns(rate * seconds * kSecond); };
    sample.cpu_ns = counted(machine.job_cores - machine.worker_cores - machine.other_child_cores);
    sample.other_children_cpu_ns = counted(machine.other_child_cores);
    sample.children_cpu_ns = counted(machine.worker_cores);
    sample.run_delay_ns = counted(machine.run_delay_s);
    sample.throttled_ns = counted(machine.throttled_s);
    sample.cpu_total_ns = counted(machine.cores);
    sample.cpu_steal_ns = counted(machine.steal_cores);
    sample.cpu_idle_ns =
        counted(machine.cores - machine.job_cores - machine.other_cores - machine.steal_cores);
    sample.psi_memory_ns = counted(machine.memory_stall_s);
    sample.major_faults = uint64_t(machine.faults * seconds);
    sample.swap_in_bytes = uint64_t(machine.swap_in_bytes * seconds);
    sample.memory_available_bytes = uint64_t(machine.available_bytes);
    sample.shm_used_bytes = uint64_t(machine.shm_used_bytes);
    job.process().machine_samples.push_back(sample);
  }
}

// Training that computes by itself: 400 steps of 10 ms.
test::Job training(const Machine& machine, uint32_t cpus = 8) {
  test::Job job = test::make_loader_job({.workers = 0, .batches = 400});
  job.process().epochs.clear();
  job.process().cpu_count = cpus;
  test::set_shares(job, {});
  sample(job, machine);
  return job;
}

Diagnosis diagnose_job(const test::Job& job) {
  return diagnose(job.run, job.ranks);
}

// A loader of the job's own: its processes are no other program's.
TEST(CpuContention, OfProcessesThatTheJobStartedIsItsOwn) {
  const Machine machine{.cores = 2, .job_cores = 2, .other_child_cores = 0.8, .run_delay_s = 0.4};
  const Diagnosis diagnosis = diagnose_job(training(machine, 2));
  const Finding* finding = find(diagnosis, "cpu-contention");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->title.find("other processes"), std::string::npos) << finding->title;
  EXPECT_EQ(setting_value(finding->fix.change), "3");
  const Machine idle{.cores = 2, .job_cores = 1.2, .other_child_cores = 0.2, .run_delay_s = 0.4};
  EXPECT_EQ(find(diagnose_job(training(idle, 2)), "cpu-contention"), nullptr);
}

// Settings of a server with 16 cores (sleep-threads of tests/abroad).
TEST(CpuContention, OfMoreThreadsThanCoresIsTheJobsOwn) {
  const auto with_threads = [](const char* threads, const Machine& machine) {
    test::Job job = training(machine, 2);
    job.process().facts["torch_threads"] = threads;
    return diagnose_job(job);
  };
  const Machine full{.cores = 2, .job_cores = 1.95, .run_delay_s = 0.02};
  const Diagnosis diagnosis = with_threads("16", full);
  ASSERT_FALSE(diagnosis.findings.empty());
  const Finding& finding = diagnosis.findings.front();
  EXPECT_EQ(finding.id, "cpu-contention");
  EXPECT_EQ(setting_name(finding.fix.change), "torch.set_num_threads");
  EXPECT_EQ(setting_value(finding.fix.change), "2");
  EXPECT_FALSE(finding.prediction || finding.ceiling_speedup);
  const Machine waits{.cores = 2, .job_cores = 1.6, .run_delay_s = 0.46};
  EXPECT_NE(find(with_threads("16", waits), "cpu-contention"), nullptr);
  EXPECT_EQ(find(with_threads("2", waits), "cpu-contention"), nullptr);
  const Machine shared{.cores = 2, .job_cores = 1.1, .other_cores = 0.85, .run_delay_s = 0.6};
  EXPECT_EQ(setting_name(with_threads("16", shared).findings.front().fix.change), "torch.set_num_threads")
      << "others make it worse";
  EXPECT_EQ(find(with_threads("2", full), "cpu-contention"), nullptr);
  EXPECT_EQ(find(with_threads("16", {.cores = 2, .job_cores = 1.1}), "cpu-contention"), nullptr)
      << "operations too short for threads";
  const Machine workers{.cores = 2, .job_cores = 1.95, .worker_cores = 1.6, .run_delay_s = 0.4};
  for (const Finding& it : with_threads("16", workers).findings)
    EXPECT_NE(setting_name(it.fix.change), "torch.set_num_threads") << "the workers fill the cores";
}

// torchrun's OMP_NUM_THREADS=1, or a set_num_threads(1) that was left over.
TEST(IntraOpThreads, AreFewerThanTheFreeCores) {
  const auto with_threads = [](const char* threads, const Machine& machine, bool interprets = false,
                               const char* line = "/v/site-packages/torch/nn/modules/conv.py:9 forward") {
    test::Job job = training(machine, 4);
    job.process().facts["torch_threads"] = threads;
    const model::TimeSpan all{job.rank().steps.front().step.begin, job.rank().steps.back().step.end};
    job.rank().slices = {{all.begin, all.end, attribute::Category::Compute, 0}};
    job.run.texts[91] = std::string(line) + "\n/home/a/train.py:80 main";
    for (Ns i = 0; i < 40; ++i)
      job.process().threads[0].worker_stacks.push_back(
          {all.begin + i * all.length() / 40, 50'000'000, 91, job.process().pid, interprets});
    test::set_shares(job, {{attribute::Category::Checkpoint, 0.1}});  // the rest is compute
    return diagnose_job(job);
  };
  const Diagnosis diagnosis = with_threads("1", {.cores = 4, .job_cores = 1});
  const Finding* finding = find(diagnosis, "intra-op-threads");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(setting_value(finding->fix.change), "4");
  EXPECT_NEAR(finding->ceiling_speedup.value_or(0), 1 / (1 - 0.9 * 3 / 4), 1e-9);
  EXPECT_EQ(find(with_threads("4", {.cores = 4, .job_cores = 1}), "intra-op-threads"), nullptr)
      << "operations too short for threads";
  const Machine workers{.cores = 4, .job_cores = 3.9, .worker_cores = 2.9};
  EXPECT_EQ(find(with_threads("1", workers), "intra-op-threads"), nullptr) << "no core is free";
  EXPECT_EQ(find(with_threads("1", {.cores = 4, .job_cores = 1}, true), "intra-op-threads"), nullptr)
      << "short operations";
  const Diagnosis in_script =
      with_threads("1", {.cores = 4, .job_cores = 1}, false, "/home/a/train.py:40 count");
  EXPECT_EQ(find(in_script, "intra-op-threads"), nullptr) << "may be Python";
  EXPECT_EQ(find(with_threads("1", {.cores = 4, .job_cores = 0.4}), "intra-op-threads"), nullptr)
      << "it waits for something else";
  const Machine shared{.cores = 4, .job_cores = 1, .other_cores = 2.1};
  EXPECT_EQ(setting_value(find(with_threads("1", shared), "intra-op-threads")->fix.change), "2");
}

// No rule is about these workers, since training has its data in time.
TEST(CpuContention, WhoeverHasTheCoresIsSaid) {
  const auto said = [](double delay) {
    test::Job job = training({.cores = 2, .job_cores = 1.9, .worker_cores = 0.7}, 2);
    test::set_shares(job, {{attribute::Category::Sched, delay}});
    for (const Limit& limit : diagnose_job(job).limits)
      if (limit.sentence.find("waits for a CPU core") != std::string::npos) return limit.sentence;
    return std::string();
  };
  EXPECT_NE(said(0.2).find("Of 2 cores its process uses 1.2, its loader workers 0.7"), std::string::npos)
      << said(0.2);
  EXPECT_EQ(said(0.02), "");
}

// PyTorch counts the machine's cores, not the container's quota.
TEST(CpuContention, OfMoreThreadsThanTheQuotaHasIsTheJobsOwn) {
  test::Job job = training({.job_cores = 2, .throttled_s = 0.4, .run_delay_s = 0.4});
  job.process().facts["cpu_quota"] = "2.00";
  job.process().facts["torch_threads"] = "8";
  const Diagnosis diagnosis = diagnose_job(job);
  const Finding* finding = find(diagnosis, "cpu-contention");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(setting_value(finding->fix.change), "2");
}

TEST(CpuQuota, NamesTheQuotaThatThrottles) {
  test::Job job = training({.job_cores = 1, .throttled_s = 0.4, .run_delay_s = 0.4});
  job.process().facts["cpu_quota"] = "1.00";
  const Diagnosis diagnosis = diagnose_job(job);
  const Finding* finding = find(diagnosis, "cpu-quota");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(setting_value(finding->fix.change), "2");
  ASSERT_TRUE(finding->prediction);
  EXPECT_NEAR(finding->prediction->value.expected, 0.6 * finding->prediction->now, 0.01);
  EXPECT_EQ(find(diagnosis, "cpu-contention"), nullptr);
}

TEST(CpuQuota, IsSilentBelowTheQuota) {
  test::Job job = training({.job_cores = 1});
  job.process().facts["cpu_quota"] = "4.00";
  EXPECT_EQ(find(diagnose_job(job), "cpu-quota"), nullptr);
  test::Job bursts = training({.job_cores = 1, .throttled_s = 0.1});  // throttled, and most of the quota left
  bursts.process().facts["cpu_quota"] = "4.00";
  EXPECT_EQ(find(diagnose_job(bursts), "cpu-quota"), nullptr);
}

TEST(CpuSteal, IsTheHostsNotAnotherProcesss) {
  const Diagnosis diagnosis = diagnose_job(training({.job_cores = 4, .steal_cores = 1, .run_delay_s = 0.2}));
  const Finding* finding = find(diagnosis, "cpu-steal");
  ASSERT_NE(finding, nullptr);
  EXPECT_NEAR(*finding->ceiling_speedup, 1.25, 0.01);
  EXPECT_EQ(find(diagnosis, "cpu-contention"), nullptr);
  EXPECT_EQ(find(diagnose_job(training({.job_cores = 4, .other_cores = 1, .run_delay_s = 0.2})), "cpu-steal"),
            nullptr);
}

TEST(CpuContention, BlamesOtherProcesses) {
  const Diagnosis diagnosis =
      diagnose_job(training({.cores = 2, .job_cores = 1, .other_cores = 1, .run_delay_s = 0.3}, 2));
  const Finding* finding = find(diagnosis, "cpu-contention");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(setting_name(finding->fix.change), "CPU affinity");
  ASSERT_TRUE(finding->prediction);
  EXPECT_NEAR(finding->prediction->speedup.expected, 1 / 0.7, 0.01);
}

TEST(CpuContention, NeedsATrainingThreadThatWaits) {
  EXPECT_EQ(
      find(diagnose_job(training({.job_cores = 1, .other_cores = 6, .run_delay_s = 0.02})), "cpu-contention"),
      nullptr);
}

TEST(CpuContention, GainsNothingWhileTheDeviceWorksOn) {
  for (const double idle_share : {0.01, 0.25}) {
    test::Job job = test::make_device_job({{.gap_us = 2500, .device_us = 7500, .waits = true}}, 100);
    test::set_shares(job, {{attribute::Category::Sched, idle_share}});
    sample(job, {.cores = 2, .job_cores = 1, .other_cores = 1, .run_delay_s = 0.3});
    const Diagnosis diagnosis = diagnose_job(job);
    const Finding* finding = find(diagnosis, "cpu-contention");
    EXPECT_EQ(finding != nullptr, idle_share > 0.1);
    if (finding) {
      EXPECT_NEAR(finding->ceiling_speedup.value_or(0), 1 / (1 - idle_share), 0.01);
    }
  }
}

TEST(CpuContention, BlamesTheJobsOwnWorkers) {
  test::Job job = test::make_loader_job({.workers = 4, .batches = 400, .cpu_count = 2, .cpu_share = 1});
  sample(job, {.cores = 2, .job_cores = 2, .worker_cores = 1.6, .run_delay_s = 0.3});
  const Diagnosis diagnosis = diagnose_job(job);
  const Finding* finding = find(diagnosis, "cpu-contention");
  if (finding) {
    EXPECT_EQ(setting_name(finding->fix.change), "num_workers");
  }
  for (const Finding& it : diagnosis.findings)
    EXPECT_NE(setting_name(it.fix.change), "CPU affinity") << it.id;
}

// Two workers and training that computes on both cores: what it hardly waits for still costs it its cores.
TEST(FullCores, AreTheTransformsNotTheWorkers) {
  const auto job_with = [](double job_cores, double worker_cores, double delay, double others = 0) {
    test::Job job = test::make_loader_job({.workers = 2,
                                           .batches = 400,
                                           .cpu_count = 2,
                                           .cpu_share = 1,
                                           .service_ms = [](size_t) { return 8.0; },
                                           .think_ms = [](size_t) { return 10.0; }});
    sample(job, {.cores = 2 + others,
                 .job_cores = job_cores,
                 .worker_cores = worker_cores,
                 .other_cores = others,
                 .run_delay_s = delay});
    return diagnose_job(job);
  };
  const Diagnosis full = job_with(1.9, 0.8, 0.3);
  const Finding* decode = find(full, "input-decode");
  ASSERT_NE(decode, nullptr);
  EXPECT_EQ(find(full, "cpu-contention"), nullptr);
  EXPECT_NEAR(decode->lost_share, 1 - 1.1 / 2, 0.01);
  EXPECT_GE(*decode->ceiling_speedup, 2 / 1.1 - 0.01);
  EXPECT_EQ(find(job_with(1.5, 0.6, 0.1), "input-decode"), nullptr) << "cores are left";
  EXPECT_EQ(find(job_with(1.9, 0.5, 0.1), "input-decode"), nullptr) << "most is training's";
  const Diagnosis delayed = job_with(1.9, 0.5, 0.3);
  ASSERT_NE(find(delayed, "input-decode"), nullptr) << "which waits for the cores";
  EXPECT_NEAR(find(delayed, "input-decode")->lost_share, 1 - 1.4 / 2, 0.01);
  EXPECT_EQ(find(job_with(1.9, 0.2, 0.3), "input-decode"), nullptr) << "workers hardly take any";
  EXPECT_EQ(find(job_with(1.8, 0.4, 0.3, 0.5), "input-decode"), nullptr) << "other programs take more";
}

// "Make __getitem__ cheaper" came first where padding in collate_fn was 92% of what the workers did.
TEST(FullCores, AreCollatingWhereThatIsMostOfABatch) {
  const auto job_with = [](Ns collate_ns) {
    test::Job job =
        test::make_loader_job({.workers = 2,
                               .batches = 400,
                               .cpu_count = 2,
                               .cpu_share = 1,
                               .service_ms = [](size_t) { return 8.0; },
                               .think_ms = [](size_t) { return 10.0; },
                               .describe = [=](model::Batch& batch) { batch.collate_ns = collate_ns; }});
    sample(job, {.cores = 2, .job_cores = 1.9, .worker_cores = 0.8, .run_delay_s = 0.3});
    return diagnose_job(job);
  };
  const Diagnosis collating = job_with(7'400'000);
  EXPECT_EQ(find(collating, "input-decode"), nullptr);
  const Finding* collate = find(collating, "collate-cost");
  ASSERT_NE(collate, nullptr);
  EXPECT_NEAR(collate->lost_share, 7.4 / 8 * (1 - 1.1 / 2), 0.01);
  EXPECT_GE(*collate->ceiling_speedup, 2 / 1.1 - 0.01);
  EXPECT_NE(collate->title.find("take 0.8 of the 1.9 CPU cores"), std::string::npos) << collate->title;
  const Diagnosis samples = job_with(1'000'000);
  EXPECT_NE(find(samples, "input-decode"), nullptr);
  EXPECT_EQ(find(samples, "collate-cost"), nullptr);
}

TEST(MemoryPressureHost, ByPressureOrBySwapping) {
  const Diagnosis pressed = diagnose_job(training({.memory_stall_s = 0.25}));
  const Finding* finding = find(pressed, "memory-pressure-host");
  ASSERT_NE(finding, nullptr);
  EXPECT_NEAR(*finding->ceiling_speedup, 1 / 0.75, 0.01);
  EXPECT_NE(find(diagnose_job(training({.swap_in_bytes = 20e6})), "memory-pressure-host"), nullptr);
}

TEST(MemoryPressureHost, FirstReadsOfMappedFilesAreNone) {
  test::Job job = training({.faults = 500, .available_bytes = 6e9});
  job.process().facts["memory_bytes"] = "8000000000";
  EXPECT_EQ(find(diagnose_job(job), "memory-pressure-host"), nullptr);
  test::Job full = training({.faults = 500, .available_bytes = 0.2e9});
  full.process().facts["memory_bytes"] = "8000000000";
  EXPECT_NE(find(diagnose_job(full), "memory-pressure-host"), nullptr);
}

TEST(ShmLimit, ComparesUseWithSize) {
  test::Job job = test::make_loader_job({.workers = 2, .batches = 400});
  job.process().epochs[0].workers.resize(2);
  job.process().facts["shm_bytes"] = "67108864";
  sample(job, {.shm_used_bytes = 60e6});
  const Diagnosis diagnosis = diagnose_job(job);
  const Finding* finding = find(diagnosis, "shm-limit");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(setting_value(finding->fix.change), "1g");
  job.process().facts["shm_bytes"] = "8000000000";
  EXPECT_EQ(find(diagnose_job(job), "shm-limit"), nullptr);
}

// Workers that sleep in pieces wait for their core to wake up at the end of each: only where the machine has
// little to spare can that be a shortage of cores.
TEST(IdleMachine, HasNoShortageOfCores) {
  const auto least_cores = [](double other_cores) {
    test::Job job = test::make_loader_job({.workers = 2,
                                           .batches = 400,
                                           .cpu_count = 2,
                                           .cpu_share = 0.1,
                                           .service_ms = [](size_t) { return 50.0; },
                                           .run_delay_share = 0.02});
    sample(job, {.cores = 2, .job_cores = 1.2, .worker_cores = 0.1, .other_cores = other_cores});
    return predict::extract_loader(job.run, job.rank()).value().cores_low;
  };
  EXPECT_GT(least_cores(0.3), 1);  // a quarter of the cores idles
  EXPECT_EQ(least_cores(0.1), 0);  // 0.7 of 2
}

TEST(CpuUndersized, SaysHowManyCoresItTakes) {
  // 8 ms of CPU a batch beside 2.2 ms in which training waits for its accelerator: 3.6 cores for workers.
  test::Job job = test::make_loader_job({.workers = 2,
                                         .batches = 400,
                                         .cpu_count = 2,
                                         .cpu_share = 0.8,
                                         .service_ms = [](size_t) { return 10.0; },
                                         .think_ms = [](size_t) { return 2.2; }});
  test::Job idle = job, computing = job;
  sample(job, {.cores = 2, .job_cores = 2, .worker_cores = 1.95});
  const Diagnosis diagnosis = diagnose_job(job);
  const Finding* finding = find(diagnosis, "cpu-undersized");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->fix.summary.find("GPU"), std::string::npos) << "this job has none";
  EXPECT_GE(std::stod(setting_value(finding->fix.change)), 4);
  EXPECT_LE(std::stod(setting_value(finding->fix.change)), 5);
  sample(computing, {.cores = 2, .job_cores = 2, .worker_cores = 1.6});
  EXPECT_EQ(find(diagnose_job(computing), "cpu-undersized"), nullptr) << "more cores speed up any CPU job";
  sample(idle, {.cores = 2, .job_cores = 0.5, .worker_cores = 0.4});
  EXPECT_EQ(find(diagnose_job(idle), "cpu-undersized"), nullptr);
}

Diagnosis diagnose_on_nodes(uint32_t cpu, int device_node) {
  test::Job job = test::make_device_job({{.device_us = 500}}, 100);
  test::set_shares(job, {{attribute::Category::CopyStaging, 0.2}});
  sample(job, {});
  for (model::MachineSample& it : job.process().machine_samples) it.cpu = cpu;
  job.process().facts["numa_cpus"] = "0:0-3,8-11;1:4-7,12-15";
  job.process().device_samples.push_back({.numa_node = device_node});
  return diagnose_job(job);
}

TEST(NumaAffinity, ComparesTheThreadsNodeWithTheGpus) {
  const Diagnosis diagnosis = diagnose_on_nodes(9, 1);
  ASSERT_NE(find(diagnosis, "numa-affinity"), nullptr);
  EXPECT_EQ(setting_value(find(diagnosis, "numa-affinity")->fix.change), "1");
  EXPECT_EQ(find(diagnose_on_nodes(12, 1), "numa-affinity"), nullptr);
  EXPECT_EQ(find(diagnose_on_nodes(9, 0), "numa-affinity"), nullptr);
  EXPECT_EQ(find(diagnose_on_nodes(99, 1), "numa-affinity"), nullptr);  // on no node that is known
  EXPECT_EQ(find(diagnose_on_nodes(9, -1), "numa-affinity"), nullptr);
}

}  // namespace
}  // namespace gpuwatch::advise
