// SPDX-License-Identifier: Apache-2.0
// Workers that get the memory of each batch from the kernel anew, and those that look alike.
#include <gtest/gtest.h>

#include "analyzer/predict/loader_replay.h"
#include "tests/unit/analyzer/advise/found.h"

namespace gpuwatch::advise {
namespace {

using model::Ns;

// Two workers that compute 50 ms for a batch of 3.2 MB, beside 5 ms of training. Each 4 KiB page of it is
// new, and as many more faults as they say.
struct Kernel {
  double faults_per_batch = 5400, system_share = 0.45;
  const char* page_ns = "3500";
  uint64_t batch_bytes = 3'200'000;
  const char* glibc = "2.36";
};

test::Job computing(const Kernel& kernel) {
  constexpr double kCpuMs = 50;
  test::LoaderJob job;
  job.workers = 2;
  job.cpu_share = 1;
  job.service_ms = [](size_t) { return kCpuMs; };
  job.think_ms = [](size_t) { return 5.0; };
  job.describe = [&](model::Batch& batch) {
    batch.tensors = 1;
    batch.bytes = kernel.batch_bytes;
  };
  test::Job made = test::make_loader_job(job);
  made.process().facts["shared_page_ns"] = kernel.page_ns;
  made.process().facts["glibc"] = kernel.glibc;
  const Ns begin = made.rank().steps.front().step.begin, end = made.rank().steps.back().step.end;
  for (int i = 0; i <= 8; ++i) {
    model::MachineSample sample{};
    sample.time = begin + (end - begin) * i / 8;
    const double cpu_ns = 1.9 * double(sample.time - begin);
    sample.children_cpu_ns = Ns(cpu_ns);
    sample.children_system_ns = Ns(kernel.system_share * cpu_ns);
    sample.children_minor_faults = uint64_t(cpu_ns / (kCpuMs * 1e6) * kernel.faults_per_batch);
    made.process().machine_samples.push_back(sample);
  }
  return made;
}

TEST(PageFaults, ArePredictedFromWhatAFaultTakes) {
  const Found found(computing({}), "page-faults");
  ASSERT_TRUE(found);
  EXPECT_EQ(setting_name(found->fix.change), "GLIBC_TUNABLES");
  EXPECT_EQ(setting_value(found->fix.change),
            "glibc.malloc.trim_threshold=1073741824:glibc.malloc.mmap_threshold=1073741824");
  // 5400 faults less 781 pages and a tenth: 4540 x 3.5 us = 15.9 of 50 ms, of which nine tenths go.
  const double expected = 50 / (50 - 0.9 * 15.9);
  ASSERT_TRUE(found->alone) << "more workers, which come before it on 8 cores, gain more";
  EXPECT_NEAR(found->alone->speedup.expected, expected, 0.02);
  EXPECT_LT(found->alone->speedup.low, 50 / (50 - 0.75 * 15.9));
  EXPECT_GT(found->alone->speedup.high, 50 / (50 - 1.0 * 15.9));
}

// Faults take no longer than the kernel worked, whatever one takes elsewhere.
TEST(PageFaults, TakeNoMoreThanTheKernelDid) {
  const Found found(computing({.system_share = 0.2}), "page-faults");
  ASSERT_TRUE(found);
  EXPECT_LT(found->alone->speedup.expected, 1 / (1 - 0.9 * 0.2));
}

TEST(PageFaults, OfTheBatchItselfStay) {
  EXPECT_FALSE(Found(computing({.faults_per_batch = 860, .system_share = 0.1}), "page-faults"));
}

// Without a virtual machine a fault is cheap.
TEST(PageFaults, MayBeCheap) {
  EXPECT_FALSE(Found(computing({.system_share = 0.04, .page_ns = "250"}), "page-faults"));
}

TEST(PageFaults, AreNotWhatMallocOfOthersDoes) {
  test::Job job = computing({});
  job.process().modules.push_back({0, 1, "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"});
  EXPECT_FALSE(Found(job, "page-faults"));
  test::Job set = computing({});
  set.process().facts["GLIBC_TUNABLES"] = "glibc.malloc.top_pad=67108864";
  EXPECT_FALSE(Found(set, "page-faults"));
}

// An older malloc gives blocks beyond 32 MiB back at once: how much of them there is, is not known.
TEST(PageFaults, OfVeryLargeBatchesAreABoundForAnOlderMalloc) {
  Kernel kernel{.faults_per_batch = 30'000, .system_share = 0.6, .page_ns = "1500", .batch_bytes = 40u << 20};
  EXPECT_TRUE(Found(computing(kernel), "page-faults")->prediction);
  kernel.glibc = "2.31";
  const Found older(computing(kernel), "page-faults");
  ASSERT_TRUE(older);
  EXPECT_FALSE(older->prediction);
  EXPECT_TRUE(older->ceiling_speedup);
  EXPECT_EQ(setting_value(older->fix.change),
            "glibc.malloc.trim_threshold=1073741824:glibc.malloc.mmap_threshold=33554432");
}

// Training on the CPU: 40% of its own time in the kernel.
test::Job training(double system_share, double faults_per_cpu_s) {
  test::LoaderJob job;
  job.workers = 1;
  job.service_ms = [](size_t) { return 1.0; };
  job.think_ms = [](size_t) { return 40.0; };
  test::Job made = test::make_loader_job(job);
  made.process().facts["shared_page_ns"] = "3500";
  made.process().facts["glibc"] = "2.36";
  const Ns begin = made.rank().steps.front().step.begin, end = made.rank().steps.back().step.end;
  for (int i = 0; i <= 8; ++i) {
    model::MachineSample sample{};
    sample.time = begin + (end - begin) * i / 8;
    sample.cpu_ns = sample.time - begin;
    sample.system_ns = Ns(system_share * double(sample.cpu_ns));
    sample.minor_faults = uint64_t(faults_per_cpu_s * double(sample.cpu_ns) / 1e9);
    made.process().machine_samples.push_back(sample);
  }
  return made;
}

TEST(PageFaults, OfTrainingOnTheCpuAreBounded) {
  const Found found(training(0.4, 120'000), "page-faults");
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->prediction);
  EXPECT_NEAR(found->ceiling_speedup.value(), 1 / (1 - 1.25 * 0.4), 0.1);
  EXPECT_EQ(setting_name(found->fix.change), "GLIBC_TUNABLES");
  EXPECT_FALSE(Found(training(0.4, 5'000), "page-faults")) << "the kernel did something else";
  EXPECT_FALSE(Found(training(0.02, 120'000), "page-faults"));
}

// Those of a Keras model were as many with the setting as without.
TEST(PageFaults, OfTensorFlowAreNotMallocs) {
  test::Job job = training(0.4, 120'000);
  EXPECT_TRUE(Found(job, "page-faults"));
  job.process().facts.erase("torch");
  job.process().facts["tensorflow"] = "2.20.0";
  EXPECT_FALSE(Found(job, "page-faults"));
}

}  // namespace
}  // namespace gpuwatch::advise
