// SPDX-License-Identifier: Apache-2.0
// One cause a test, as a program on a device would show it, and next to it a similar case with another cause.
#include <gtest/gtest.h>

#include "run_builder.h"

namespace gpuwatch {
namespace {

using attribute::Category;
using attribute::RankAttribution;
using model::Ns;
using test::CopyShape;
using test::ms;
using test::RunBuilder;
using test::us;
using trace::OpClass;
using trace::RecordKind;

class HostWalkTest : public ::testing::Test, public RunBuilder {
 protected:
  uint32_t main_ = thread("main");
  // The rest of the step is computing: what is asserted is the gap.
  Ns time(const RankAttribution& row, Category category) { return row.time(category); }

  RankAttribution attribute_lock_wait_before_copy() {
    process().facts["python"] = "3.11.2";
    kernel(main_, {us(0), us(5)}, {us(10), us(1000)});
    call(main_, OpClass::Wait, us(1100), us(5000), "pthread_cond_timedwait");
    copy(main_, {us(5000), us(5015)}, {us(5015), us(5120)}, {RecordKind::CopyH2D, 1 << 20, false, 1});
    return attribute(us(10), {us(5120)});
  }
};

TEST_F(HostWalkTest, SynchronisationAndRefillAreSync) {
  kernel(main_, {us(0), us(5)}, {us(10), us(1000)});
  cuda(main_, OpClass::Sync, us(6), us(1030), {}, "cudaStreamSynchronize");
  kernel(main_, {us(1050), us(1055)}, {us(1060), us(2000)});
  const RankAttribution row = attribute(us(10), {us(2000)});
  EXPECT_EQ(time(row, Category::Compute), us(1930));
  EXPECT_EQ(time(row, Category::Sync), us(60));
}

// The host came late to the synchronisation: without it the device would have been idle as well.
TEST_F(HostWalkTest, ALateHostIsNotTheSynchronisationsFault) {
  kernel(main_, {us(0), us(5)}, {us(10), us(100)});
  cuda(main_, OpClass::Sync, us(98), us(101), {}, "cudaStreamSynchronize");
  kernel(main_, {us(150), us(155)}, {us(160), us(200)});
  const RankAttribution row = attribute(us(10), {us(200)});
  EXPECT_EQ(time(row, Category::Sync), us(1) + us(2));
  EXPECT_EQ(time(row, Category::LaunchDispatch), us(49) - us(2));
  EXPECT_EQ(time(row, Category::LaunchApi), us(5));
  EXPECT_EQ(time(row, Category::DeviceLaunchGap), us(5));
}

TEST_F(HostWalkTest, LongOwnWorkAfterASynchronisationIsTheScripts) {
  kernel(main_, {us(0), us(5)}, {us(10), ms(20)});
  cuda(main_, OpClass::Sync, us(6), ms(20) + us(10), {}, "cudaStreamSynchronize");
  kernel(main_, {ms(25), ms(25) + us(5)}, {ms(25) + us(10), ms(40)});
  const RankAttribution row = attribute(us(10), {ms(40)});
  EXPECT_EQ(time(row, Category::HostCompute), ms(5) - us(10));
  EXPECT_EQ(time(row, Category::Sync), us(20));
}

TEST_F(HostWalkTest, ASynchronisationAfterACopyOnItsStreamBelongsToTheCopy) {
  const CopyShape pinned{RecordKind::CopyH2D, 1 << 24, false, 1};
  copy(main_, {us(0), us(5)}, {us(10), us(500)}, pinned);
  cuda(main_, OpClass::Sync, us(6), us(520), pinned, "cudaStreamSynchronize");
  kernel(main_, {us(530), us(535)}, {us(540), us(1000)});
  const RankAttribution row = attribute(us(10), {us(1000)});
  EXPECT_EQ(time(row, Category::CopyH2D), us(490) + us(40));
  EXPECT_EQ(time(row, Category::Sync), 0);
}

TEST_F(HostWalkTest, ASynchronisationOfAnotherStreamAfterACopyIsASynchronisation) {
  copy(main_, {us(0), us(5)}, {us(10), us(500)}, {RecordKind::CopyH2D, 1 << 24, false, 1});
  cuda(main_, OpClass::Sync, us(6), us(520), {RecordKind::CopyH2D, 0, false, 2}, "cudaStreamSynchronize");
  kernel(main_, {us(530), us(535)}, {us(540), us(1000)});
  EXPECT_EQ(time(attribute(us(10), {us(1000)}), Category::Sync), us(40));
}

TEST_F(HostWalkTest, ReadingAFewBytesBackIsASynchronisation) {
  kernel(main_, {us(0), us(5)}, {us(10), us(500)});
  copy(main_, {us(6), us(520)}, {us(500), us(502)}, {RecordKind::CopyD2H, 4, true, 1});
  kernel(main_, {us(530), us(535)}, {us(540), us(1000)});
  const RankAttribution row = attribute(us(10), {us(1000)});
  EXPECT_EQ(time(row, Category::CopyD2H), us(2));
  EXPECT_EQ(time(row, Category::Sync), us(38));
}

TEST_F(HostWalkTest, ReadingManyBytesBackIsACopy) {
  kernel(main_, {us(0), us(5)}, {us(10), us(500)});
  copy(main_, {us(6), us(1520)}, {us(500), us(1500)}, {RecordKind::CopyD2H, 32 << 20, false, 1});
  kernel(main_, {us(1530), us(1535)}, {us(1540), us(2000)});
  EXPECT_EQ(time(attribute(us(10), {us(2000)}), Category::CopyD2H), us(1040));
}

TEST_F(HostWalkTest, PageableCopyIsStaged) {
  kernel(main_, {us(0), us(5)}, {us(10), us(500)});
  copy(main_, {us(6), us(8500)}, {us(8400), us(9700)}, {RecordKind::CopyH2D, 64 << 20, true, 1});
  kernel(main_, {us(8510), us(8515)}, {us(9700), us(12000)});
  const RankAttribution row = attribute(us(10), {us(12000)});
  EXPECT_EQ(time(row, Category::CopyStaging), us(7900));
  EXPECT_EQ(time(row, Category::CopyH2D), us(1300));
}

TEST_F(HostWalkTest, AllocatingAndFreeing) {
  kernel(main_, {us(0), us(5)}, {us(10), us(500)});
  cuda(main_, OpClass::Free, us(6), us(600));
  cuda(main_, OpClass::Alloc, us(602), us(900));
  kernel(main_, {us(905), us(910)}, {us(915), us(2000)});
  const RankAttribution row = attribute(us(10), {us(2000)});
  EXPECT_EQ(time(row, Category::Alloc), us(100) + us(298));
  EXPECT_EQ(time(row, Category::LaunchDispatch), us(2) + us(5));
}

TEST_F(HostWalkTest, ShortKernelsOneByOneAreLaunchBound) {
  for (int i = 0; i < 100; ++i) {
    kernel(main_, {us(20 * i), us(20 * i + 8)}, {us(20 * i + 10), us(20 * i + 15)});
  }
  const RankAttribution row = attribute(us(10), {us(20 * 99 + 15)});
  EXPECT_EQ(time(row, Category::Compute), us(500));
  EXPECT_EQ(time(row, Category::LaunchDispatch), us(5 * 99));
  EXPECT_EQ(time(row, Category::LaunchApi), us(8 * 99));
  EXPECT_EQ(time(row, Category::DeviceLaunchGap), us(2 * 99));
}

// The dispatcher lost its CPU once: still dispatch. Work of that length in every step is the script's.
TEST_F(HostWalkTest, OneLongOccurrenceAtAPlaceThatIsUsuallyShort) {
  Ns begin = 0;
  for (int i = 0; i < 100; ++i) {
    begin += i == 50 ? ms(12) : us(20);
    kernel(main_, {begin, begin + us(8)}, {begin + us(8), begin + us(13)});
  }
  const RankAttribution row = attribute(0, {us(1000), us(1020), us(1040), us(1060), us(13993)});
  EXPECT_EQ(time(row, Category::HostCompute), 0);
  EXPECT_GT(time(row, Category::LaunchDispatch), ms(11));
}

TEST_F(HostWalkTest, FullQueueOnOneStreamLeavesLaunchGaps) {
  kernel(main_, {us(0), us(2)}, {us(10), us(100)});
  kernel(main_, {us(3), us(5)}, {us(102), us(200)});
  EXPECT_EQ(time(attribute(us(10), {us(200)}), Category::DeviceLaunchGap), us(2));
}

TEST_F(HostWalkTest, FullQueueBehindAnotherStreamIsADependency) {
  kernel(main_, {us(0), us(2)}, {us(10), us(100)}, 0);
  kernel(main_, {us(3), us(5)}, {us(104), us(200)}, 1);
  const RankAttribution row = attribute(us(10), {us(200)});
  EXPECT_EQ(time(row, Category::DeviceDependency), us(4));
  ASSERT_EQ(row.slices.size(), 3u);
  EXPECT_EQ(row.slices[1].stream, 0);
}

TEST_F(HostWalkTest, LoaderThreadsOfTheProgramItself) {
  const uint32_t loader = thread("loader");
  kernel(main_, {us(0), us(5)}, {us(10), us(1000)});
  call(main_, OpClass::Wait, us(20), us(5000), "pthread_cond_wait");
  call(loader, OpClass::Read, us(500), us(3000));
  call(loader, OpClass::Wait, us(5100), us(5200), "pthread_cond_wait");
  copy(main_, {us(5010), us(5015)}, {us(5020), us(5120)}, {RecordKind::CopyH2D, 1 << 20, false, 1});
  const RankAttribution row = attribute(us(10), {us(5120)});
  EXPECT_EQ(time(row, Category::InputIo), us(2000));
  EXPECT_EQ(time(row, Category::InputTransform), us(2000));
  EXPECT_EQ(time(row, Category::LaunchDispatch), us(10));
}

// One thread of a pool finished the batch, another was at work while that one had nothing to do.
TEST_F(HostWalkTest, OneOfAPoolAtWorkIsThePoolAtWork) {
  const uint32_t first = thread("loader 1"), second = thread("loader 2");
  kernel(main_, {us(0), us(5)}, {us(10), us(1000)});
  call(main_, OpClass::Wait, us(20), us(5000), "pthread_cond_wait");
  call(first, OpClass::Wait, us(500), us(3000), "pthread_cond_wait");
  call(first, OpClass::Wait, us(5100), us(5200), "pthread_cond_wait");
  call(second, OpClass::Wait, us(100), us(2000), "pthread_cond_wait");
  call(second, OpClass::Wait, us(4000), us(6000), "pthread_cond_wait");
  copy(main_, {us(5000), us(5015)}, {us(5015), us(5120)}, {RecordKind::CopyH2D, 1 << 20, false, 1});
  const RankAttribution row = attribute(us(10), {us(5120)});
  EXPECT_EQ(time(row, Category::InputNoPrefetch), us(1000));
  EXPECT_EQ(time(row, Category::InputTransform), us(3000));
}

TEST_F(HostWalkTest, AnUnexplainedWaitBeforeAnInputCopyIsForData) {
  kernel(main_, {us(0), us(5)}, {us(10), us(1000)});
  call(main_, OpClass::Wait, us(20), us(5000), "sem_wait");
  copy(main_, {us(5000), us(5015)}, {us(5015), us(5120)}, {RecordKind::CopyH2D, 1 << 20, false, 1});
  EXPECT_EQ(time(attribute(us(10), {us(5120)}), Category::InputUnknown), us(4000));
}

// Its batch came from next(): what follows is the lock that the loader's pin thread has.
TEST_F(HostWalkTest, AWaitForTheLockBetweenABatchAndItsCopyIsNoneForData) {
  process().loaders.emplace_back().thread = main_;
  const RankAttribution row = attribute_lock_wait_before_copy();
  EXPECT_EQ(time(row, Category::Gil), us(3900));
  EXPECT_EQ(time(row, Category::InputUnknown), 0);
}

TEST_F(HostWalkTest, WithoutALoaderTheSameWaitIsForData) {
  const RankAttribution row = attribute_lock_wait_before_copy();
  EXPECT_EQ(time(row, Category::Gil), 0);
  EXPECT_EQ(time(row, Category::InputUnknown), us(3900));
}

TEST_F(HostWalkTest, ASingularWaitBeforeAKernelIsUnknown) {
  kernel(main_, {us(0), us(5)}, {us(10), us(1000)});
  call(main_, OpClass::Wait, us(20), us(5000), "sem_wait");
  kernel(main_, {us(5000), us(5015)}, {us(5015), us(6000)});
  EXPECT_EQ(time(attribute(us(10), {us(1500), us(3000), us(4500), us(6000)}), Category::Unknown), us(4000));
}

// Autograd's thread launches the backward pass; until then it waits, and what counts is the training thread.
TEST_F(HostWalkTest, AWaitForAnotherLaunchingThreadIsThatThreads) {
  const uint32_t autograd = thread("pt_autograd_0");
  kernel(main_, {us(0), us(5)}, {us(10), us(1000)});
  call(autograd, OpClass::Wait, us(0), us(4000), "pthread_cond_wait");
  call(main_, OpClass::Checkpoint, us(1000), us(3900));
  call(main_, OpClass::Wait, us(4010), us(9000), "pthread_cond_wait");
  kernel(autograd, {us(4000), us(4010)}, {us(4010), us(9000)});
  const RankAttribution row = attribute(us(10), {us(9000)});
  EXPECT_EQ(time(row, Category::Checkpoint), us(2900));
  EXPECT_EQ(time(row, Category::LaunchDispatch), us(100));
}

// Both wait while autograd's thread has its work and not yet a CPU.
TEST_F(HostWalkTest, HandingWorkToAnotherLaunchingThreadIsDispatch) {
  const uint32_t autograd = thread("pt_autograd_0");
  kernel(main_, {us(0), us(5)}, {us(10), us(1000)});
  call(autograd, OpClass::Wait, us(0), us(4200), "pthread_cond_wait");
  call(main_, OpClass::Checkpoint, us(1000), us(3900));
  call(main_, OpClass::Wait, us(4000), us(9000), "pthread_cond_wait");
  kernel(autograd, {us(4200), us(4210)}, {us(4210), us(9000)});
  const RankAttribution row = attribute(us(10), {us(9000)});
  EXPECT_EQ(time(row, Category::Checkpoint), us(2900));
  EXPECT_EQ(time(row, Category::LaunchDispatch), us(300));
  EXPECT_EQ(time(row, Category::Unknown), 0);
}

// On a busy CPU the training thread goes on long after autograd's thread has nothing left to do. Such waits
// were 5% "data loading" of a job that loads nothing.
TEST_F(HostWalkTest, ALateReturnFromTheBackwardPassIsDispatch) {
  const uint32_t autograd = thread("pt_autograd_0");
  kernel(main_, {us(0), us(5)}, {us(10), us(1000)});
  call(main_, OpClass::Wait, us(900), us(9000), "pthread_cond_wait");
  kernel(autograd, {us(1500), us(1510)}, {us(1510), us(2500)});
  call(autograd, OpClass::Wait, us(1600), us(20'000), "pthread_cond_wait");
  kernel(main_, {us(9000), us(9010)}, {us(9010), us(9500)});
  const RankAttribution row = attribute(us(10), {us(9500)});
  EXPECT_EQ(time(row, Category::LaunchDispatch), us(500 + 6500));
  EXPECT_EQ(time(row, Category::Unknown), 0);
}

// Nobody went to wait just before: who ended the wait is not known.
TEST_F(HostWalkTest, ALongWaitOfAllLaunchingThreadsIsUnknown) {
  const uint32_t autograd = thread("pt_autograd_0");
  kernel(main_, {us(0), us(5)}, {us(10), us(1000)});
  call(autograd, OpClass::Wait, us(0), us(7000), "pthread_cond_wait");
  call(main_, OpClass::Wait, us(2000), us(9000), "pthread_cond_wait");
  kernel(autograd, {us(7000), us(7010)}, {us(7010), us(9000)});
  const RankAttribution row = attribute(us(10), {us(9000)});
  EXPECT_EQ(time(row, Category::Unknown), us(6000));
}

TEST_F(HostWalkTest, WhatTheHostDidInstead) {
  kernel(main_, {us(0), us(5)}, {us(10), us(100)});
  call(main_, OpClass::GarbageCollection, us(100), us(200));
  call(main_, OpClass::ModuleLoad, us(200), us(400));
  call(main_, OpClass::Write, us(400), us(700));
  call(main_, OpClass::Collective, us(700), us(1100));
  call(main_, OpClass::Read, us(1100), us(1600));
  kernel(main_, {us(1600), us(1605)}, {us(1605), us(2000)});
  const RankAttribution row = attribute(us(10), {us(2000)});
  EXPECT_EQ(time(row, Category::Gc), us(100));
  EXPECT_EQ(time(row, Category::Compile), us(200));
  EXPECT_EQ(time(row, Category::Checkpoint), us(300));
  EXPECT_EQ(time(row, Category::CommHost), us(400));
  EXPECT_EQ(time(row, Category::InputIo), us(500));
}

// cpu_op events of torch.profiler: aten::topk on the host, aten::item, a Python loop in a custom operator.
TEST_F(HostWalkTest, InsideAnOperatorOfAnImportedTraceIsTheFramework) {
  process().imported_from = "torch.profiler";
  kernel(main_, {us(0), us(5)}, {us(10), us(100)});
  call(main_, OpClass::Other, us(200), us(4900), "aten::nonzero");
  call(main_, OpClass::Other, us(300), us(2900), "aten::_nonzero");
  kernel(main_, {us(4890), us(4895)}, {us(4900), us(6000)});
  RankAttribution row = attribute(us(10), {us(6000)});
  EXPECT_EQ(row.time(Category::HostCompute), 0);
  EXPECT_EQ(row.time(Category::LaunchDispatch), us(4790));
}

TEST_F(HostWalkTest, BesideOperatorsOfAnImportedTraceIsTheScript) {
  process().imported_from = "torch.profiler";
  kernel(main_, {us(0), us(5)}, {us(10), us(100)});
  call(main_, OpClass::Other, us(3000), us(4890), "aten::tokenize");
  kernel(main_, {us(4890), us(4895)}, {us(4900), us(6000)});
  const RankAttribution row = attribute(us(10), {us(6000)});
  EXPECT_EQ(row.time(Category::HostCompute), us(2900));
  EXPECT_EQ(row.time(Category::LaunchDispatch), us(1890));
}

TEST_F(HostWalkTest, StepsCutAGapWhereTheyMeet) {
  kernel(main_, {us(0), us(5)}, {us(10), us(100)});
  call(main_, OpClass::Sleep, us(100), us(4900));
  kernel(main_, {us(4900), us(4905)}, {us(4905), us(6000)});
  const RankAttribution row = attribute(us(10), {us(3000), us(6000)});
  ASSERT_EQ(row.steps.size(), 2u);
  const auto host_wait = static_cast<size_t>(Category::HostWait);
  EXPECT_EQ(row.steps[0].times[host_wait], us(2900));
  EXPECT_EQ(row.steps[1].times[host_wait], us(1900));
}

TEST_F(HostWalkTest, AfterTheLastOperationTheTrainingThreadCounts) {
  kernel(main_, {us(0), us(5)}, {us(10), us(100)});
  call(main_, OpClass::Checkpoint, us(110), us(5000));
  const RankAttribution row = attribute(us(10), {us(5000)});
  EXPECT_EQ(time(row, Category::Checkpoint), us(4890));
  EXPECT_EQ(time(row, Category::LaunchDispatch), us(10));
}

}  // namespace
}  // namespace gpuwatch
