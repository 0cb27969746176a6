// SPDX-License-Identifier: Apache-2.0
// Causes that show in NVML's samples, in GPU memory and in what comes back although it ought to happen once:
// each with the neighbor that looks like it and has not got it.
#include <gtest/gtest.h>

#include "found.h"
#include "libinject/trace/layout.h"
#include "tests/unit/analyzer/synthetic_run.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;
using model::DeviceSample;
using model::Ns;
using test::Action;
using test::Job;
using trace::OpClass;
using trace::RecordKind;

constexpr size_t kSteps = 100;
constexpr uint64_t kMib = 1 << 20;
const Action kSync{.op_class = OpClass::Sync, .cost_us = 2, .waits = true};
const Action kCompute{.gap_us = 100, .device_us = 9000, .blocks = 100'000};

Job job_of(const std::vector<Action>& step, std::initializer_list<std::pair<Category, double>> shares = {}) {
  Job job = test::make_device_job(step, kSteps);
  job.process().devices[0].memory_bytes = uint64_t{80} << 30;
  test::set_shares(job, shares);
  return job;
}

// `count` samples over the recorded steps; `at` may change the one with this number.
void sample(Job& job, DeviceSample like, const std::function<void(size_t, DeviceSample&)>& at = {},
            size_t count = 12) {
  const Ns begin = job.rank().steps.front().step.begin, end = job.rank().steps.back().step.end;
  for (size_t i = 0; i < count; ++i) {
    DeviceSample taken = like;
    taken.time = begin + (end - begin) * Ns(i) / Ns(count);
    if (at) at(i, taken);
    job.process().device_samples.push_back(taken);
  }
}

// Calls of one class, in order of time.
std::vector<model::HostCall*> calls_of(Job& job, OpClass op_class) {
  std::vector<model::HostCall*> calls;
  for (model::HostCall& call : job.process().threads[0].calls)
    if (call.op_class == op_class) calls.push_back(&call);
  return calls;
}

DeviceSample clocked(uint32_t mhz, uint64_t reasons) {
  DeviceSample sample;
  sample.sm_clock_mhz = mhz;
  sample.sm_clock_max_mhz = 2000;
  sample.throttle_reasons = reasons;
  sample.power_limit_mw = 400'000;
  sample.power_limit_default_mw = 700'000;
  return sample;
}

TEST(GpuClocks, NamesTheReasonAndItsFix) {
  struct Row {
    uint64_t reasons;
    const char *setting, *value;
  };
  const Row rows[] = {{0x20, "cooling", "better"},
                      {0x48, "cooling", "better"},
                      {0x88, "power supply", "checked"},
                      {0x2, "application clocks", "reset"},
                      {0x4, "power limit", "700 W"}};
  for (const Row& row : rows) {
    Job job = job_of({kCompute, kSync}, {{Category::Sync, 0.2}});
    sample(job, clocked(1000, row.reasons));
    const Found found(job, "gpu-clocks");
    ASSERT_TRUE(found) << row.reasons;
    EXPECT_EQ(setting_name(found->fix.change), row.setting);
    EXPECT_EQ(setting_value(found->fix.change), row.value);
    EXPECT_NEAR(*found->ceiling_speedup, 1 / (1 - 0.8 * 0.5), 1e-6);  // half of the compute at most
  }
}

TEST(GpuClocks, IsSilentAboutClocksThatAreAsTheyShouldBe) {
  const auto is_found = [](const DeviceSample& like,
                           const std::function<void(size_t, DeviceSample&)>& at = {}, size_t count = 12) {
    Job job = job_of({kCompute, kSync});
    sample(job, like, at, count);
    return bool(Found(job, "gpu-clocks"));
  };
  ASSERT_TRUE(is_found(clocked(1000, 0x4)));
  DeviceSample built_for = clocked(1000, 0x4);
  built_for.power_limit_mw = built_for.power_limit_default_mw;
  EXPECT_FALSE(is_found(built_for)) << "at the limit that it was built for";
  built_for.power_limit_default_mw = 0;
  EXPECT_FALSE(is_found(built_for)) << "a trace that does not know the default";
  EXPECT_FALSE(is_found(clocked(1000, 0x21))) << "idle";
  EXPECT_FALSE(is_found(clocked(1000, 0))) << "low without a reason";
  EXPECT_FALSE(is_found(clocked(2000, 0x20))) << "hot at full clock";
  EXPECT_FALSE(is_found(clocked(1000, 0x20), {}, 3)) << "three samples";
  EXPECT_FALSE(is_found(clocked(1000, 0x20), [](size_t i, DeviceSample& it) {
    if (i % 3) it.throttle_reasons = 0;
  })) << "a third of the time";
}

DeviceSample linked(uint32_t generation, uint32_t width) {
  DeviceSample sample;
  sample.pcie_generation = generation;
  sample.pcie_width = width;
  sample.pcie_generation_max = 4;
  sample.pcie_width_max = 16;
  return sample;
}

Action copy_of(uint64_t bytes, double device_us, bool pageable = false) {
  return {.op_class = OpClass::Copy,
          .device_us = device_us,
          .kind = RecordKind::CopyH2D,
          .pageable = pageable,
          .bytes = bytes};
}

TEST(PcieLink, NamesTheLinkThatIsPossible) {
  Job job = job_of({kCompute, copy_of(32 * kMib, 2200), kSync}, {{Category::CopyH2D, 0.2}});
  sample(job, linked(4, 8));
  const Found found(job, "pcie-link");
  ASSERT_TRUE(found);
  EXPECT_EQ(setting_value(found->fix.change), "PCIe 4 x16");
  EXPECT_NEAR(*found->ceiling_speedup, 1 / (1 - 0.2 / 2), 1e-6);
}

TEST(PcieLink, LeavesAnIdleLinkAndHiddenCopiesAlone) {
  const std::vector<Action> step = {kCompute, copy_of(32 * kMib, 1300), kSync};
  Job job = job_of(step, {{Category::CopyH2D, 0.2}});
  sample(job, linked(1, 16), [](size_t i, DeviceSample& it) {
    if (i == 5) it.pcie_generation = 4;  // it can, when it has to
  });
  EXPECT_FALSE(Found(job, "pcie-link"));
  job = job_of(step, {{Category::CopyH2D, 0.04}});
  sample(job, linked(4, 8));
  EXPECT_FALSE(Found(job, "pcie-link"));
  job = job_of(step, {{Category::CopyH2D, 0.2}});
  sample(job, linked(0, 0));  // not reported
  EXPECT_FALSE(Found(job, "pcie-link"));
}

TEST(PcieLink, DoesNotBelieveALinkThatCopiesExceed) {
  Job job = job_of({kCompute, copy_of(32 * kMib, 1300), kSync}, {{Category::CopyH2D, 0.2}});  // 26 GB/s
  sample(job, linked(1, 16));
  EXPECT_FALSE(Found(job, "pcie-link"));
}

TEST(PcieLink, ComparesPinnedCopiesWithTheFullLink) {
  Job job =
      job_of({kCompute, copy_of(32 * kMib, 3355), kSync}, {{Category::CopyH2D, 0.25}});  // 10 of 31.5 GB/s
  sample(job, linked(4, 16));
  const Found found(job, "pcie-link");
  ASSERT_TRUE(found);
  EXPECT_EQ(setting_name(found->fix.change), "PCIe topology");
  EXPECT_NEAR(*found->ceiling_speedup, 1 / (1 - 0.25 * (1 - 10 / (0.8 * 31.504))), 0.001);
  Job pageable = job_of({kCompute, copy_of(32 * kMib, 3355, true), kSync}, {{Category::CopyH2D, 0.25}});
  sample(pageable, linked(4, 16));
  EXPECT_FALSE(Found(pageable, "pcie-link"));
  Job small = job_of({kCompute, copy_of(kMib / 8, 13), kSync}, {{Category::CopyH2D, 0.25}});  // latency
  sample(small, linked(4, 16));
  EXPECT_FALSE(Found(small, "pcie-link"));
}

DeviceSample shared_by(uint32_t others, std::optional<uint32_t> busy, uint32_t utilization) {
  DeviceSample sample;
  sample.other_processes = others;
  sample.other_memory_bytes = others * 1000 * kMib;
  sample.other_utilization_percent = busy;
  sample.utilization_percent = utilization;
  return sample;
}

TEST(GpuShared, NeedsOthersThatCompute) {
  const auto found_with = [](const DeviceSample& like, double compute) {
    Job job = job_of({kCompute, kSync}, {{Category::HostCompute, 1 - compute}});
    sample(job, like);
    return Found(job, "gpu-shared");
  };
  const Found by_process = found_with(shared_by(2, 40, 100), 0.9);
  ASSERT_TRUE(by_process);
  EXPECT_NEAR(*by_process->ceiling_speedup, 1 / 0.6, 1e-6);
  const Found by_difference = found_with(shared_by(1, std::nullopt, 95), 0.5);
  ASSERT_TRUE(by_difference);
  EXPECT_NEAR(*by_difference->ceiling_speedup, 1 / 0.55, 1e-6);
  EXPECT_FALSE(found_with(shared_by(2, 0, 100), 0.9)) << "a notebook that holds memory";
  EXPECT_FALSE(found_with(shared_by(1, std::nullopt, 95), 0.9)) << "its own utilization";
  EXPECT_FALSE(found_with(shared_by(0, std::nullopt, 100), 0.5)) << "nobody else";
}

TEST(GpuShared, SaysWhatItCannotTell) {
  const auto says_so = [](const DeviceSample& like) {
    Job job = job_of({kCompute, kSync});
    sample(job, like);
    for (const Limit& limit : diagnose(job.run, job.ranks).limits)
      if (limit.sentence.starts_with("Other processes are on the same GPU")) return true;
    return false;
  };
  EXPECT_TRUE(says_so(shared_by(1, std::nullopt, 100)));
  EXPECT_FALSE(says_so(shared_by(1, 0, 100))) << "they do not compute";
  EXPECT_FALSE(says_so(shared_by(0, std::nullopt, 100)));
}

TEST(GpuShared, SeesRanksOnOneGpu) {
  Job job = job_of({kCompute, kSync}, {{Category::HostCompute, 0.5}});
  job.process().rank = 0;
  job.run.processes.push_back(job.process());
  model::Process& other = job.run.processes[1];
  other.rank = 1;
  const Found found(job, "gpu-shared");
  ASSERT_TRUE(found);
  EXPECT_EQ(setting_name(found->fix.change), "device");
  EXPECT_NEAR(*found->ceiling_speedup, 2, 1e-6);
  other.facts["CUDA_VISIBLE_DEVICES"] = "1";
  EXPECT_FALSE(Found(job, "gpu-shared")) << "its launcher gave it another one";
  other.facts.erase("CUDA_VISIBLE_DEVICES");
  other.devices[0].ordinal = 1;
  EXPECT_FALSE(Found(job, "gpu-shared")) << "it took another one";
  other.devices[0].ordinal = 0;
  other.devices[0].operations.resize(3);
  EXPECT_FALSE(Found(job, "gpu-shared")) << "it only looked";
}

TEST(GpuShared, NamesASlice) {
  Job job = job_of({kCompute, kSync});
  job.process().devices[0].name = "NVIDIA A100-SXM4-40GB MIG 2g.10gb";
  const Found found(job, "gpu-shared");
  ASSERT_TRUE(found);
  EXPECT_NEAR(*found->ceiling_speedup, 3.5, 1e-6);
  for (const char* whole : {"NVIDIA A100-SXM4-40GB MIG 7g.40gb", "NVIDIA A100-SXM4-40GB", "MIGHTY 2g",
                            "X MIG ", "X MIG 99999999999g"}) {
    job.process().devices[0].name = whole;
    EXPECT_FALSE(Found(job, "gpu-shared")) << whole;
  }
}

// A sample a second of each GPU that the process does not use, by turns.
void sample_unused(Job& job, uint32_t device, uint64_t memory_mib, uint32_t utilization,
                   uint32_t processes = 0) {
  DeviceSample sample;
  sample.device = device;
  sample.is_unused = true;
  sample.time = job.rank().steps.front().step.begin;
  sample.memory_bytes = uint64_t{80} << 30;
  sample.memory_used_bytes = memory_mib * kMib;
  sample.utilization_percent = utilization;
  sample.other_processes = processes;
  job.process().device_samples.push_back(sample);
}

TEST(GpuIdleOthers, CountsThoseThatNothingUses) {
  Job job = job_of({kCompute, kSync}, {{Category::InputTransform, 0.2}});
  job.process().facts["cuda_devices"] = "4";
  sample_unused(job, 1, 5, 0);
  sample_unused(job, 2, 30000, 0);            // another job's
  const Found found(job, "gpu-idle-others");  // of the fourth nothing is known
  ASSERT_TRUE(found);
  EXPECT_EQ(setting_value(found->fix.change), "2");
  EXPECT_NEAR(*found->ceiling_speedup, 1 / (1 - 0.8 * 0.5), 1e-6);
}

TEST(GpuIdleOthers, IsSilentWhereTheyAreUsedOrWouldIdle) {
  const auto is_found = [](double compute, const std::function<void(Job&)>& change) {
    Job job = job_of({kCompute, kSync}, {{Category::HostCompute, 1 - compute}});
    job.process().facts["cuda_devices"] = "2";
    change(job);
    return bool(Found(job, "gpu-idle-others"));
  };
  ASSERT_TRUE(is_found(0.9, [](Job& job) { sample_unused(job, 1, 5, 0); }));
  EXPECT_FALSE(is_found(0.4, [](Job& job) { sample_unused(job, 1, 5, 0); })) << "the host is the bottleneck";
  EXPECT_FALSE(is_found(0.9, [](Job&) {})) << "not sampled";
  EXPECT_FALSE(is_found(0.9, [](Job& job) { sample_unused(job, 1, 5, 60); })) << "somebody computes on it";
  EXPECT_FALSE(is_found(0.9, [](Job& job) { sample_unused(job, 1, 5, 0, 1); })) << "somebody is on it";
  EXPECT_FALSE(is_found(0.9, [](Job& job) {
    sample_unused(job, 1, 5, 0);
    sample_unused(job, 1, 5, 60);
  })) << "at times";
  EXPECT_FALSE(is_found(0.9, [](Job& job) {
    sample_unused(job, 1, 5, 0);
    job.run.processes.push_back(job.process());  // the other rank
    job.run.processes[1].devices[0].ordinal = 1;
  })) << "another rank uses it";
  EXPECT_FALSE(is_found(0.9, [](Job& job) {
    sample_unused(job, 1, 5, 0);
    job.process().facts["cuda_devices"] = "1";
  })) << "one visible";
}

// A step that allocates, frees what was cached and allocates again.
std::vector<Action> retrying_step() {
  return {{.op_class = OpClass::Alloc, .cost_us = 100},
          {.op_class = OpClass::Free, .cost_us = 500},
          {.op_class = OpClass::Alloc, .cost_us = 400},
          {.device_us = 2000, .blocks = 100'000},
          kSync};
}

Job retrying_job(const std::function<bool(size_t step)>& fails) {
  Job job = job_of(retrying_step(), {{Category::Alloc, 0.33}});
  const std::vector<model::HostCall*> allocations = calls_of(job, OpClass::Alloc);
  for (size_t i = 0; i < allocations.size(); i += 2)
    if (fails(i / 2)) allocations[i]->flags |= trace::kFailed;
  return job;
}

TEST(MemoryPressureDevice, IsAnAllocationThatFailsAndIsTriedAgain) {
  const Job job = retrying_job([](size_t step) { return step % 4 == 0; });
  const Found found(job, "memory-pressure-device");
  ASSERT_TRUE(found);
  EXPECT_EQ(setting_name(found->fix.change), "batch_size");
  EXPECT_NEAR(*found->ceiling_speedup, 1 / (1 - 1000.0 / 3010), 0.02);
  EXPECT_FALSE(Found(job, "allocator-churn"));
}

TEST(MemoryPressureDevice, IsNoChurnAndNoWarmUp) {
  const Job churn = retrying_job([](size_t) { return false; });
  EXPECT_FALSE(Found(churn, "memory-pressure-device"));
  EXPECT_TRUE(Found(churn, "allocator-churn"));
  EXPECT_FALSE(Found(retrying_job([](size_t step) { return step < 10; }), "memory-pressure-device"));
  // The program takes what it gets: a launch follows the failure.
  Job gives_up =
      job_of({{.op_class = OpClass::Alloc, .cost_us = 100}, {.device_us = 2000, .blocks = 100'000}, kSync},
             {{Category::Alloc, 0.33}});
  for (model::HostCall* call : calls_of(gives_up, OpClass::Alloc)) call->flags |= trace::kFailed;
  EXPECT_FALSE(Found(gives_up, "memory-pressure-device"));
  // Pinned memory is the host's.
  Job pinned = retrying_job([](size_t) { return true; });
  pinned.run.operations[3].name = "cudaHostAlloc";
  EXPECT_FALSE(Found(pinned, "memory-pressure-device"));
}

// Each step allocates so many bytes.
Job growing_job(const std::function<uint64_t(size_t step)>& bytes_of) {
  Job job = job_of({{.op_class = OpClass::Alloc, .cost_us = 10}, kCompute, kSync});
  const std::vector<model::HostCall*> allocations = calls_of(job, OpClass::Alloc);
  for (size_t i = 0; i < allocations.size(); ++i)
    job.process().threads[0].call_details[allocations[i]->detail].mutate_bytes(bytes_of(i));
  return job;
}

double evidence(const Finding& finding, const std::string& what) {
  for (const Evidence& row : finding.evidence)
    if (row.what == what) return row.value;
  return -1;
}

TEST(MemoryGrowth, SaysWhenTheMemoryIsFull) {
  const Found found(growing_job([](size_t) { return 64 * kMib; }), "memory-growth");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->severity, Severity::kMajor);
  EXPECT_NEAR(evidence(*found, "growth"), 64, 1);
  EXPECT_NEAR(evidence(*found, "until the memory is full"), (80 * 1024 - 100 * 64) / 64.0, 25);
  EXPECT_FALSE(found->ceiling_speedup);
}

TEST(MemoryGrowth, SeesBlocksOfACache) {
  EXPECT_TRUE(Found(growing_job([](size_t step) { return step % 7 == 0 ? 20 * kMib : 0; }), "memory-growth"));
}

TEST(MemoryGrowth, IsNoWarmUpAndNoReuse) {
  EXPECT_FALSE(Found(growing_job([](size_t step) { return step < 30 ? 64 * kMib : 0; }), "memory-growth"));
  // Ever longer batches, ever more rarely.
  double next = 1;
  EXPECT_FALSE(Found(growing_job([&](size_t step) {
                       if (double(step) < next) return uint64_t{0};
                       next *= 1.15;
                       return 64 * kMib;
                     }),
                     "memory-growth"));
  // 1 KiB a step: full in three weeks.
  EXPECT_FALSE(Found(growing_job([](size_t) { return kMib / 1024; }), "memory-growth"));
  // As much is freed, how much is not recorded.
  const std::vector<Action> reuse = {{.op_class = OpClass::Alloc, .cost_us = 10, .bytes = 64 * kMib},
                                     kCompute,
                                     kSync,
                                     {.op_class = OpClass::Free, .cost_us = 10}};
  EXPECT_FALSE(Found(job_of(reuse), "memory-growth"));
}

// cuMemCreate, as of expandable segments.
TEST(MemoryGrowth, BelievesNvmlWhereCallsHaveNoSize) {
  Job job = growing_job([](size_t step) { return step == 3 ? 2 * kMib : 0; });
  sample(job, {}, [](size_t i, DeviceSample& it) { it.memory_used_bytes = (1000 + 100 * i) * kMib; });
  EXPECT_TRUE(Found(job, "memory-growth"));
}

TEST(MemoryGrowth, BelievesNvmlWhereMemoryIsFreed) {
  const auto is_found = [](const std::function<void(size_t, DeviceSample&)>& at) {
    Job job = job_of({{.op_class = OpClass::Alloc, .cost_us = 10, .bytes = 64 * kMib},
                      kCompute,
                      kSync,
                      {.op_class = OpClass::Free, .cost_us = 10}});
    DeviceSample like;
    like.memory_bytes = uint64_t{80} << 30;
    sample(job, like, at);
    return bool(Found(job, "memory-growth"));
  };
  EXPECT_TRUE(is_found([](size_t i, DeviceSample& it) { it.memory_used_bytes = (1000 + 100 * i) * kMib; }));
  EXPECT_FALSE(is_found([](size_t i, DeviceSample& it) {
    it.memory_used_bytes = (1000 + 100 * std::min<size_t>(i, 6)) * kMib;
  })) << "levels off";
  EXPECT_FALSE(is_found([](size_t i, DeviceSample& it) {
    it.memory_used_bytes = (1000 + 100 * i) * kMib;
    it.other_processes = 1;
    it.other_memory_bytes = (100 + 100 * i) * kMib;
  })) << "the other process grows";
  EXPECT_FALSE(is_found([](size_t i, DeviceSample& it) {
    it.memory_used_bytes = (1000 + 100 * i) * kMib;
    it.other_processes = 1;
  })) << "cannot tell whose it is";
}

// 1 ms of compute, then 2 ms until a module is loaded.
Job loading_job(OpClass op_class = OpClass::ModuleLoad) {
  return job_of(
      {{.device_us = 1000, .blocks = 100'000}, kSync, {.op_class = op_class, .gap_us = 1500, .cost_us = 500}},
      {{Category::Compile, 0.16}, {Category::HostCompute, 0.48}});
}

// Only in these steps.
void keep_loads(Job& job, const std::function<bool(size_t step)>& kept) {
  const std::vector<model::HostCall*> loads = calls_of(job, OpClass::ModuleLoad);
  for (size_t i = 0; i < loads.size(); ++i)
    if (!kept(i)) loads[i]->op_class = OpClass::Other;
}

TEST(Recompilation, CountsTheTimeBeforeTheLoad) {
  const Found found(loading_job(), "recompilation");
  ASSERT_TRUE(found);
  EXPECT_NEAR(*found->ceiling_speedup, 1 / (1 - 2000.0 / 3012), 0.02);
  EXPECT_EQ(setting_name(found->fix.change), "dynamic shapes");
  const Found graphs(loading_job(OpClass::GraphBuild), "recompilation");
  ASSERT_TRUE(graphs);
  EXPECT_EQ(setting_name(graphs->fix.change), "CUDA graph");
}

// XLA sets the parameters of a graph's nodes before each of its launches.
TEST(Recompilation, IsNoNewParametersForAGraphThatStays) {
  Job job = loading_job(OpClass::GraphBuild);
  job.run.operations.push_back({"cuGraphExecKernelNodeSetParams", OpClass::GraphBuild});
  for (model::HostCall* call : calls_of(job, OpClass::GraphBuild))
    call->operation = static_cast<uint16_t>(job.run.operations.size() - 1);
  EXPECT_FALSE(Found(job, "recompilation"));
  job.run.operations.back().name =
      "cudaGraphExecUpdate";  // what llama.cpp does with a graph that it captured again
  EXPECT_TRUE(Found(job, "recompilation"));
}

TEST(Recompilation, IsNoWarmUpAndNoHostWork) {
  Job warm_up = loading_job();
  keep_loads(warm_up, [](size_t step) { return step < 20; });
  EXPECT_FALSE(Found(warm_up, "recompilation"));
  Job late = loading_job();
  keep_loads(late, [](size_t step) { return step < 20 || step == 60; });
  EXPECT_FALSE(Found(late, "recompilation")) << "a kernel that is first used late";
  Job host_work = loading_job();
  keep_loads(host_work, [](size_t step) { return step % 5 == 0; });
  EXPECT_FALSE(Found(host_work, "recompilation")) << "steps without a load are as long";
  Job behind_compute = job_of(
      {{.device_us = 5000, .blocks = 100'000}, {.op_class = OpClass::ModuleLoad, .cost_us = 500}, kSync});
  EXPECT_FALSE(Found(behind_compute, "recompilation")) << "the GPU computes meanwhile";
}

// Every fifth step loads a module; the neighbor does something else there.
Job long_steps_job(OpClass op_class) {
  std::vector<Action> five = {{.op_class = op_class, .gap_us = 15000, .cost_us = 500}};
  for (int i = 0; i < 5; ++i) {
    five.push_back({.device_us = 1000, .blocks = 100'000});
    five.push_back(kSync);
  }
  Job job = job_of(five);
  std::vector<model::TimeSpan> steps;
  Ns begin = job.rank().steps.front().step.begin;
  for (const model::HostCall* call : calls_of(job, OpClass::Sync)) {
    steps.push_back({begin, call->end});
    begin = call->end;
  }
  test::set_steps(job, steps);
  test::set_shares(job, {{Category::HostCompute, 0.7}});
  return job;
}

TEST(Recompilation, IsNamedBeforeTheLongStepsThatItMakes) {
  const Job compiling = long_steps_job(OpClass::ModuleLoad), other = long_steps_job(OpClass::Other);
  EXPECT_TRUE(Found(compiling, "recompilation"));
  EXPECT_FALSE(Found(compiling, "long-steps"));
  EXPECT_FALSE(Found(other, "recompilation"));
  EXPECT_TRUE(Found(other, "long-steps"));
}

TEST(Recompilation, KnowsACompilerByItsFrames) {
  const auto is_found = [](const char* frame) {
    Job job = loading_job(OpClass::ChildWait);
    job.run.texts[7] = std::string("/usr/lib/python3.11/subprocess.py:1100 wait\n/site-packages/") + frame;
    for (const model::HostCall* call : calls_of(job, OpClass::ChildWait))
      job.process().threads[0].stacks.push_back({call->begin, 7});
    return bool(Found(job, "recompilation"));
  };
  EXPECT_TRUE(is_found("torch/_inductor/graph.py:2100 compile_to_module"));
  EXPECT_FALSE(is_found("torch/_dynamo/eval_frame.py:700 compile_wrapper")) << "a call of compiled code";
}

// Four convolution kernels, each waited for, and one of training.
Job searching_job(bool waits, const std::function<std::string(size_t step, size_t kernel)>& name) {
  std::vector<Action> step;
  for (int i = 0; i < 4; ++i) {
    step.push_back({.gap_us = 10, .device_us = 200, .blocks = 100'000});
    if (waits) step.push_back(kSync);
  }
  step.push_back({.device_us = 2000, .blocks = 100'000});
  Job job = job_of(step);
  std::vector<model::DeviceOp>& operations = job.process().devices[0].operations;
  for (size_t i = 0; i < operations.size(); ++i)
    job.run.kernels[operations[i].kernel].name = i % 5 == 4 ? "relu" : name(i / 5, i % 5);
  return job;
}

TEST(CudnnAutotune, IsASearchThatComesBack) {
  const auto algorithm = [](size_t, size_t kernel) {
    return "sm80_xmma_fprop_implicit_gemm_" + std::to_string(kernel);
  };
  const Found found(searching_job(true, algorithm), "cudnn-autotune");
  ASSERT_TRUE(found);
  EXPECT_EQ(setting_value(found->fix.change), "False");
  EXPECT_NEAR(*found->ceiling_speedup, 1 / (1 - 4 * 217.0 / 2885), 0.05);
}

TEST(CudnnAutotune, IsNoTrainingAndNoWarmUp) {
  const auto algorithm = [](size_t, size_t kernel) {
    return "sm80_xmma_fprop_implicit_gemm_" + std::to_string(kernel);
  };
  EXPECT_FALSE(Found(searching_job(false, algorithm), "cudnn-autotune")) << "layer after layer";
  EXPECT_FALSE(Found(searching_job(true, [](size_t, size_t) { return "sm80_xmma_fprop_implicit_gemm"; }),
                     "cudnn-autotune"))
      << "one algorithm, timed";
  EXPECT_FALSE(Found(
      searching_job(true,
                    [&](size_t step, size_t kernel) { return step < 10 ? algorithm(step, kernel) : "relu"; }),
      "cudnn-autotune"))
      << "first steps";
  EXPECT_FALSE(
      Found(searching_job(
                true, [](size_t, size_t kernel) { return "cudnn::bn_fw_tr_1C11_" + std::to_string(kernel); }),
            "cudnn-autotune"))
      << "batch norm";
}

// A second GPU that does the same `later_us` later, and a copy from the first in each step.
Job replicated_job(double later_us, bool sends_model) {
  Job job = job_of({{.gap_us = 5000, .device_us = 4000, .blocks = 100'000}, kSync},
                   {{Category::HostCompute, 0.55}});
  model::Device second = job.process().devices[0];
  second.ordinal = 1;
  for (model::DeviceOp& op : second.operations) {
    op.begin += Ns(later_us * 1e3);
    op.end += Ns(later_us * 1e3);
  }
  if (sends_model) {
    std::vector<model::DeviceOp> operations;
    for (const model::DeviceOp& op : second.operations) {
      model::DeviceOp copy = op;
      copy.kind = RecordKind::CopyOther;
      copy.kernel = model::kNone;
      copy.begin = op.begin - 1000'000;
      copy.end = op.begin;
      operations.push_back(copy);
      operations.push_back(op);
    }
    second.operations = operations;
  }
  job.process().devices.push_back(second);
  return job;
}

TEST(DataParallel, IsOneProcessThatSendsItsModel) {
  const Found found(replicated_job(100, true), "data-parallel");
  ASSERT_TRUE(found);
  EXPECT_EQ(setting_value(found->fix.change), "2");
  EXPECT_NEAR(*found->ceiling_speedup, 9007.0 / 4000, 0.1);
}

TEST(DataParallel, IsNoPipelineAndNoOtherStrategy) {
  EXPECT_FALSE(Found(replicated_job(4000, true), "data-parallel")) << "one after the other";
  EXPECT_FALSE(Found(replicated_job(100, false), "data-parallel")) << "the model stays where it is";
  Job rank = replicated_job(100, true);
  rank.process().world_size = 2;
  EXPECT_FALSE(Found(rank, "data-parallel"));
}

}  // namespace
}  // namespace gpuwatch::advise
