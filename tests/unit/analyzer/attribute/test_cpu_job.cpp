// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "run_builder.h"

namespace gpuwatch {
namespace {

using attribute::Category;
using attribute::RankAttribution;
using test::RunBuilder;
using test::us;
using trace::OpClass;

class CpuJobTest : public ::testing::Test, public RunBuilder {
 protected:
  uint32_t main_ = thread("main");
};

TEST_F(CpuJobTest, TheTrainingThreadIsTheDevice) {
  call(main_, OpClass::Write, us(100), us(150));
  call(main_, OpClass::GarbageCollection, us(200), us(220));
  call(main_, OpClass::Sleep, us(300), us(330));
  call(main_, OpClass::Checkpoint, us(400), us(500));
  const RankAttribution row = attribute(0, {us(1000)});
  EXPECT_FALSE(row.device_observed);
  EXPECT_EQ(row.device, model::kNone);
  EXPECT_EQ(row.time(Category::Checkpoint), us(150));
  EXPECT_EQ(row.time(Category::Gc), us(20));
  EXPECT_EQ(row.time(Category::HostCompute), us(30));
  EXPECT_EQ(row.time(Category::Compute), us(800));
  EXPECT_EQ(row.wall_ns, us(1000));
}

TEST_F(CpuJobTest, RunDelayCoversTheTimeSinceTheLastStep) {
  call(main_, OpClass::OptimizerStep, us(0), us(100));
  cpu(main_, OpClass::OptimizerStep, us(500), us(600), us(50));
  const RankAttribution row = attribute(us(100), {us(600), us(1000)});
  EXPECT_EQ(row.time(Category::Sched), us(50));
  EXPECT_EQ(row.steps[0].times[static_cast<size_t>(Category::Sched)], us(50));
  EXPECT_EQ(row.time(Category::Compute), us(850));
}

TEST_F(CpuJobTest, RunDelayLiesInOwnCodeOnly) {
  call(main_, OpClass::OptimizerStep, us(0), us(100));
  call(main_, OpClass::Sleep, us(100), us(550));
  cpu(main_, OpClass::OptimizerStep, us(550), us(600), us(80));  // more than there is own code
  const RankAttribution row = attribute(us(100), {us(600)});
  EXPECT_EQ(row.time(Category::Sched), us(50));
  EXPECT_EQ(row.time(Category::HostCompute), us(450));
}

TEST_F(CpuJobTest, PagesThatHadToBeRead) {
  call(main_, OpClass::OptimizerStep, us(0), us(100));
  call(main_, OpClass::Sleep, us(200), us(300));
  cpu(main_, OpClass::OptimizerStep, us(500), us(600), us(50));
  const auto faulted = [&](uint32_t faults) {
    process().threads[main_].cpu_details.back() = trace::CpuDetail(us(150), us(50), faults, 0);
    return attribute(us(100), {us(600)}).time(Category::PageFault);
  };
  EXPECT_EQ(faulted(3), us(200));  // of 500: 150 on the CPU, 50 waiting for one, 100 asleep
  EXPECT_EQ(faulted(0), 0);        // waits of another kind
}

TEST_F(CpuJobTest, ReadsTooShortToBeRecorded) {
  call(main_, OpClass::OptimizerStep, us(0), us(100));
  call(main_, OpClass::Read, us(200), us(300));
  cpu(main_, OpClass::OptimizerStep, us(500), us(600), 0);
  model::Thread& thread = process().threads[main_];
  thread.io_counts = {trace::IoCounts(1 << 20, 0, 160, 0, 100)};
  thread.io_counts_of_cpu_detail = {0};
  EXPECT_EQ(attribute(us(100), {us(600)}).time(Category::InputIo), us(160));
}

TEST_F(CpuJobTest, ShortReadsLieInTakingABatchToo) {
  call(main_, OpClass::OptimizerStep, us(0), us(100));
  call(main_, OpClass::LoaderNext, us(100), us(500));
  call(main_, OpClass::Poll, us(100), us(200));
  cpu(main_, OpClass::OptimizerStep, us(500), us(600), 0);
  model::Thread& thread = process().threads[main_];
  thread.io_counts = {trace::IoCounts(1 << 20, 0, 200, 0, 100)};
  thread.io_counts_of_cpu_detail = {0};
  // 100 of the 400 us that were not spent waiting are the script's own.
  EXPECT_EQ(attribute(us(100), {us(600)}).time(Category::InputIo), us(50));
}

TEST_F(CpuJobTest, WaitingForTheInterpretersLock) {
  process().facts["python"] = "3.12.1";
  call(main_, OpClass::Wait, us(100), us(300), "pthread_cond_timedwait");
  call(main_, OpClass::Wait, us(400), us(40'000),
       "pthread_cond_timedwait");  // no interpreter waits that long
  EXPECT_EQ(attribute(0, {us(50'000)}).time(Category::Gil), us(200));
}

TEST_F(CpuJobTest, WhoReadsFromAPipeWaitsForAnotherProcess) {
  call(main_, OpClass::Read, us(100), us(300));
  model::Thread& thread = process().threads[main_];
  thread.io_details = {trace::IoDetail(4, 0, 0, 0x50495045)};
  thread.calls.back().detail = 0;
  const RankAttribution row = attribute(0, {us(1000)});
  EXPECT_EQ(row.time(Category::InputUnknown), us(200));
  EXPECT_EQ(row.time(Category::InputIo), 0);
}

TEST_F(CpuJobTest, WaitingForOwnComputeThreadsIsComputing) {
  const uint32_t pool = thread("pool");
  call(pool, OpClass::Wait, us(0), us(90), "pthread_cond_wait");
  call(pool, OpClass::Wait, us(310), us(400), "pthread_cond_wait");
  call(main_, OpClass::Wait, us(100), us(300), "pthread_cond_wait");
  EXPECT_EQ(attribute(0, {us(1000)}).time(Category::Compute), us(1000));
}

TEST_F(CpuJobTest, WaitingForAThreadThatReadsIsInput) {
  const uint32_t reader = thread("reader");
  call(reader, OpClass::Read, us(50), us(280));
  call(reader, OpClass::Wait, us(310), us(400), "pthread_cond_wait");
  call(main_, OpClass::Wait, us(100), us(300), "pthread_cond_wait");
  const RankAttribution row = attribute(0, {us(1000)});
  EXPECT_EQ(row.time(Category::InputIo), us(180));
  EXPECT_EQ(row.time(Category::Compute), us(820));
}

TEST_F(CpuJobTest, WarmUpIsLeftOut) {
  model::StepSeries series;
  series.steps = {{0, us(400), 1, true}, {us(400), us(500)}, {us(500), us(600)}};
  const RankAttribution row = attribute::attribute_process(run, 0, series).at(0);
  EXPECT_EQ(row.steps.size(), 2u);
  EXPECT_EQ(row.wall_ns, us(200));
  EXPECT_EQ(row.slices.front().begin, us(400));
}

}  // namespace
}  // namespace gpuwatch
