// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "libinject/trace/layout.h"
#include "run_builder.h"

namespace gpuwatch {
namespace {

using attribute::Category;
using attribute::RankAttribution;
using model::Batch;
using model::Ns;
using test::RunBuilder;
using test::us;
using trace::OpClass;

// A training thread on the CPU that waits in one next() from 0 to 1000 us, then computes until 1100 us.
class DataWaitTest : public ::testing::Test, public RunBuilder {
 protected:
  DataWaitTest() {
    model::Loader loader;
    loader.id = 7;
    loader.num_workers = 2;
    loader.thread = main_;
    process().loaders.push_back(loader);
    model::LoaderEpoch epoch;
    epoch.workers = {{0, 100, model::kNone, us(-5000)}, {1, 101, model::kNone, us(-5000)}};
    process().epochs.push_back(epoch);
    call(main_, OpClass::LoaderNext, 0, us(1000), "", 7, 1);
    batches().resize(2);  // one that came before, and the one waited for
    batches()[0] = batch(0, us(-900), {us(-800), us(-500)}, us(-400), {us(-300), us(-200)});
  }

  static Batch batch(uint32_t worker, Ns sent, model::TimeSpan fetch, Ns received, model::TimeSpan next) {
    Batch result;
    result.worker = worker;
    result.sent = sent;
    result.fetch = fetch;
    result.received = received;
    result.next = next;
    return result;
  }

  std::vector<Batch>& batches() { return process().epochs[0].batches; }
  model::LoaderEpoch& epoch() { return process().epochs[0]; }
  RankAttribution result() { return attribute(0, {us(1100)}); }

  uint32_t main_ = thread("main");
};

TEST_F(DataWaitTest, StagesOfABatch) {
  epoch().workers[0].start = us(50);
  batches()[1] = batch(0, us(100), {us(150), us(800)}, us(900), {0, us(1000)});
  batches()[1].fetch_blocked_ns = us(100);
  batches()[1].fetch_run_delay_ns = us(55);  // over 550 us of transforming and collating
  batches()[1].collate_ns = us(200);
  const RankAttribution row = result();
  EXPECT_EQ(row.time(Category::InputStartup), us(50));
  EXPECT_EQ(row.time(Category::InputNoPrefetch), us(100));
  EXPECT_EQ(row.time(Category::InputIo), us(100));
  EXPECT_EQ(row.time(Category::InputCpuStarved), us(55));
  EXPECT_EQ(row.time(Category::InputCollate), us(180));
  EXPECT_EQ(row.time(Category::InputTransform), us(315));
  EXPECT_EQ(row.time(Category::InputTransfer), us(100));
  EXPECT_EQ(row.time(Category::InputWakeup), us(100));
  EXPECT_EQ(row.time(Category::Compute), us(100));
}

TEST_F(DataWaitTest, OnlyThePartOfAFetchWithinTheWaitCounts) {
  batches()[1] = batch(1, us(-600), {us(-500), us(500)}, us(500), {0, us(1000)});
  batches()[1].fetch_blocked_ns = us(500);  // spread evenly: half of it before the wait
  const RankAttribution row = result();
  EXPECT_EQ(row.time(Category::InputIo), us(250));
  EXPECT_EQ(row.time(Category::InputTransform), us(250));
  EXPECT_EQ(row.time(Category::InputWakeup), us(500));
}

TEST_F(DataWaitTest, AWorkerThatHadTheIndexInItsQueueDidNotLackPrefetch) {
  batches()[0].fetch.end = us(100);
  batches()[1] = batch(0, us(-600), {us(300), us(1000)}, us(1000), {0, us(1000)});
  EXPECT_EQ(result().time(Category::InputNoPrefetch), 0);
  EXPECT_EQ(result().time(Category::InputTransfer), us(300));
}

TEST_F(DataWaitTest, OneSlowBatchHoldsBackFinishedOnes) {
  batches()[1] = batch(0, us(-500), {us(-400), us(1000)}, us(1000), {0, us(1000)});
  batches().push_back(batch(1, us(-450), {us(-400), us(300)}, 0, {}));
  EXPECT_EQ(result().time(Category::InputHeadOfLine), us(700));
  EXPECT_EQ(result().time(Category::InputTransform), us(300));
}

TEST_F(DataWaitTest, AnotherWorkerStillBusyIsNotHeldBack) {
  batches()[1] = batch(0, us(-500), {us(-400), us(1000)}, us(1000), {0, us(1000)});
  batches().push_back(batch(1, us(-450), {us(-400), us(300)}, 0, {}));
  batches().push_back(batch(1, us(-420), {us(300), us(1200)}, 0, {}));
  EXPECT_EQ(result().time(Category::InputHeadOfLine), 0);
}

TEST_F(DataWaitTest, OutOfOrderDeliveryHoldsNothingBack) {
  process().loaders[0].in_order = 0;
  batches()[1] = batch(0, us(-500), {us(-400), us(1000)}, us(1000), {0, us(1000)});
  batches().push_back(batch(1, us(-450), {us(-400), us(300)}, 0, {}));
  EXPECT_EQ(result().time(Category::InputHeadOfLine), 0);
}

TEST_F(DataWaitTest, ABatchWhoseFetchWasNotSeenIsUnknown) {
  batches()[1] = batch(0, us(-500), {}, us(900), {0, us(1000)});
  EXPECT_EQ(result().time(Category::InputUnknown), us(900));
  EXPECT_EQ(result().time(Category::InputWakeup), us(100));
}

TEST_F(DataWaitTest, PinThreadAtWork) {
  const uint32_t pin = thread("pt_data_pin");
  call(pin, OpClass::PinBatch, us(550), us(700), "", 7);
  batches()[1] = batch(0, us(-500), {us(-400), us(500)}, us(900), {0, us(1000)});
  EXPECT_EQ(result().time(Category::InputTransfer), us(250));
  EXPECT_EQ(result().time(Category::InputPin), us(150));
  EXPECT_EQ(result().time(Category::InputWakeup), us(100));
}

TEST_F(DataWaitTest, ReadsAreTakenWhereTheyHappened) {
  run.processes.push_back({});
  model::Process& worker = run.processes[1];
  worker.threads.resize(1);
  const auto add = [&](OpClass op_class, Ns begin, Ns end) {
    model::HostCall call{};
    call.begin = begin;
    call.end = end;
    call.op_class = op_class;
    worker.threads[0].calls.push_back(call);
  };
  add(OpClass::Fetch, us(-500), us(500));
  add(OpClass::Read, us(-400), us(100));
  add(OpClass::Collate, us(450), us(500));
  epoch().workers[0].process = 1;
  batches()[1] = batch(0, us(-600), {us(-500), us(500)}, us(500), {0, us(500)});
  process().threads[main_].calls[0].end = us(500);
  batches()[1].fetch_blocked_ns = us(500);
  batches()[1].collate_ns = us(50);
  batches()[1].fetch_run_delay_ns = us(50);  // over 500 us of its own work, 400 of them within the wait
  const RankAttribution row = result();
  EXPECT_EQ(row.time(Category::InputIo), us(100));
  EXPECT_EQ(row.time(Category::InputCollate), us(45));
  EXPECT_EQ(row.time(Category::InputCpuStarved), us(40));
  EXPECT_EQ(row.time(Category::InputTransform), us(315));
}

TEST_F(DataWaitTest, ReadsTooShortToBeRecordedArePartOfTheWork) {
  process().loaders[0].num_workers = 0;
  epoch().workers.clear();
  call(main_, OpClass::Fetch, 0, us(1000));
  call(main_, OpClass::Read, us(100), us(300));
  batches()[0].worker = model::kNone;
  batches()[1] = batch(model::kNone, 0, {0, us(1000)}, 0, {0, us(1000)});
  batches()[1].fetch_blocked_ns = us(200);
  batches()[1].fetch_io_ns = us(600);
  batches()[1].fetch_run_delay_ns = us(80);  // half of it in short reads
  const RankAttribution row = result();
  EXPECT_EQ(row.time(Category::InputIo), us(600));
  EXPECT_EQ(row.time(Category::InputCpuStarved), us(40));
  EXPECT_EQ(row.time(Category::InputTransform), us(360));
}

TEST_F(DataWaitTest, PagesThatHadToBeReadAreReading) {
  process().loaders[0].num_workers = 0;
  epoch().workers.clear();
  call(main_, OpClass::Fetch, 0, us(1000));
  call(main_, OpClass::Sleep, us(100), us(300));
  batches()[0].worker = model::kNone;
  batches()[1] = batch(model::kNone, 0, {0, us(1000)}, 0, {0, us(1000)});
  batches()[1].fetch_cpu_ns = us(300);
  batches()[1].major_faults = 7;
  EXPECT_EQ(result().time(Category::InputIo), us(500));
  batches()[1].major_faults = 0;
  EXPECT_EQ(result().time(Category::InputIo), 0);
}

TEST_F(DataWaitTest, AWorkerWaitsForItsOwnLock) {
  process().facts["python"] = "3.11.2";
  process().loaders[0].num_workers = 0;
  epoch().workers.clear();
  call(main_, OpClass::Fetch, 0, us(1000));
  call(main_, OpClass::Collate, us(500), us(1000));
  call(main_, OpClass::Wait, us(600), us(700), "pthread_cond_timedwait");
  call(main_, OpClass::Wait, us(750), us(800), "pthread_cond_wait");  // its own compute threads
  batches()[0].worker = model::kNone;
  batches()[1] = batch(model::kNone, 0, {0, us(1000)}, 0, {0, us(1000)});
  EXPECT_EQ(result().time(Category::InputGil), us(100));
  EXPECT_EQ(result().time(Category::InputCollate), us(400));
}

TEST_F(DataWaitTest, WithoutWorkersTheBatchIsMadeInsideNext) {
  process().loaders[0].num_workers = 0;
  process().loaders[0].pin_memory = 1;
  epoch().workers.clear();
  call(main_, OpClass::Fetch, us(10), us(900));
  call(main_, OpClass::Read, us(100), us(400));
  call(main_, OpClass::Collate, us(800), us(900));
  batches()[0].worker = model::kNone;
  batches()[1] = batch(model::kNone, 0, {us(10), us(900)}, 0, {0, us(1000)});
  batches()[1].fetch_blocked_ns = us(300);
  batches()[1].collate_ns = us(100);
  batches()[1].fetch_run_delay_ns = us(59);
  const RankAttribution row = result();
  EXPECT_EQ(row.time(Category::InputIo), us(300));
  EXPECT_EQ(row.time(Category::InputCollate), us(90));
  EXPECT_EQ(row.time(Category::InputCpuStarved), us(59));
  EXPECT_EQ(row.time(Category::InputTransform), us(10) + us(490 - 49));
  EXPECT_EQ(row.time(Category::InputPin), us(100));
}

// Its samples are what the collector looks through.
TEST_F(DataWaitTest, CollectionsOfAFetchArePartOfItsWork) {
  process().loaders[0].num_workers = 0;
  epoch().workers.clear();
  call(main_, OpClass::Fetch, 0, us(1000));
  call(main_, OpClass::GarbageCollection, us(100), us(300));
  call(main_, OpClass::Sleep, us(700), us(800));
  call(main_, OpClass::GarbageCollection, us(1020), us(1050));
  batches()[0].worker = model::kNone;
  batches()[1] = batch(model::kNone, 0, {0, us(1000)}, 0, {0, us(1000)});
  const RankAttribution row = result();
  EXPECT_EQ(row.time(Category::InputTransform), us(900));
  EXPECT_EQ(row.time(Category::InputWait), us(100));
  EXPECT_EQ(row.time(Category::Gc), us(30));
}

TEST_F(DataWaitTest, TheEndOfAnEpochIsAPhase) {
  process().threads[main_].calls[0].flags = trace::kFailed;
  EXPECT_EQ(result().time(Category::Phase), us(1000));
}

TEST_F(DataWaitTest, AWaitWithoutABatchIsUnknown) {
  batches()[1] = {};
  EXPECT_EQ(result().time(Category::InputUnknown), us(1000));
}

}  // namespace
}  // namespace gpuwatch
