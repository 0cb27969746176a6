// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <numeric>
#include <utility>

#include "libinject/trace/layout.h"
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
  EXPECT_EQ(row.time(Category::HostWait), us(30));
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

// A damaged recording: what follows is added up for the steps that are disjoint.
TEST_F(CpuJobTest, AStepWithinAnotherIsLeftOut) {
  call(main_, OpClass::OptimizerStep, us(0), us(100));
  attribute(us(100), {us(1000)});  // makes the run
  model::StepSeries series;
  for (const auto& [begin, end] : {std::pair(100, 600), {300, 500}, {600, 1000}})
    series.steps.push_back({us(begin), us(end)});
  const RankAttribution row = attribute::attribute_process(run, 0, series).at(0);
  EXPECT_EQ(row.steps.size(), 2u);
  EXPECT_EQ(row.wall_ns, us(900));
  EXPECT_EQ(std::accumulate(row.times.begin(), row.times.end(), model::Ns{0}), row.wall_ns);
}

TEST_F(CpuJobTest, RunDelayLiesInOwnCodeOnly) {
  call(main_, OpClass::OptimizerStep, us(0), us(100));
  call(main_, OpClass::Sleep, us(100), us(550));
  cpu(main_, OpClass::OptimizerStep, us(550), us(600), us(80));  // more than there is own code
  const RankAttribution row = attribute(us(100), {us(600)});
  EXPECT_EQ(row.time(Category::Sched), us(50));
  EXPECT_EQ(row.time(Category::HostWait), us(450));
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

// gloo has no thread that is seen, and reduces gradients inside of backward.
TEST_F(CpuJobTest, WaitingForPeersIsCommunication) {
  process().world_size = 2;
  run.texts[7] =
      "/v/site-packages/torch/autograd/graph.py:979 _engine_run_backward\n/home/u/train.py:16 main";
  run.texts[8] = "/v/site-packages/torch/distributed/distributed_c10d.py:88 barrier\n/home/u/train.py:3 main";
  run.texts[9] = "/home/u/train.py:5 main";
  const uint32_t gloo = thread("pt_gloo_runloop");
  call(gloo, OpClass::Poll, us(0), us(280));
  call(gloo, OpClass::Poll, us(310), us(5000));
  for (const auto& [begin, text] : {std::pair{us(100), 7u}, {us(400), 8u}, {us(700), 9u}}) {
    call(main_, OpClass::Wait, begin, begin + us(200), "pthread_cond_wait");
    process().threads[main_].stacks.push_back({begin, text});
  }
  const RankAttribution row = attribute(0, {us(1000)});
  EXPECT_EQ(row.time(Category::CommHost), us(400));
  process().world_size = 1;
  EXPECT_EQ(attribute(0, {us(1000)}).time(Category::CommHost), 0);
}

// A thread of gloo waits for work, then for the peers, and then, done, for work again.
class GlooTest : public CpuJobTest {
 protected:
  GlooTest() {
    process().facts["python"] = "3.12.1";
    run.texts[9] = "/home/u/train.py:5 main";
  }
  // The training thread waits from 100 to 300 ms; a collective begins at 90 and ends at `collective_ms`.
  RankAttribution wait(double collective_ms, uint32_t text, const char* name = "pthread_cond_wait") {
    const uint32_t gloo = thread("pt_gloo_runloop");
    call(gloo, OpClass::Wait, test::ms(1), test::ms(90), "pthread_cond_wait");
    call(gloo, OpClass::Wait, test::ms(91), test::ms(collective_ms - 1), "pthread_cond_wait");
    call(gloo, OpClass::Wait, test::ms(collective_ms), test::ms(900), "pthread_cond_wait");
    call(main_, OpClass::Wait, test::ms(100), test::ms(300), name);
    if (text) process().threads[main_].stacks.push_back({test::ms(100), text});
    return attribute(0, {test::ms(1000)});
  }
};

// work.wait() of an asynchronous collective has no Python frame of torch's.
TEST_F(GlooTest, WaitingInTheScriptsOwnLineIsCommunicationToo) {
  process().world_size = 2;
  EXPECT_EQ(wait(300, 9).time(Category::CommHost), test::ms(200));
}

// Stacks are rationed.
TEST_F(GlooTest, WaitingWithoutAStackIsCommunicationToo) {
  process().world_size = 2;
  EXPECT_EQ(wait(300, 0).time(Category::CommHost), test::ms(200));
}

// Ranks that are told by arguments: no variable says how many there are.
TEST_F(GlooTest, RanksNeedNoVariables) {
  process().world_size = -1;
  EXPECT_EQ(wait(300, 9).time(Category::CommHost), test::ms(200));
}

TEST_F(GlooTest, WaitingForAnotherThreadMeanwhileIsNone) {
  process().world_size = 2;
  EXPECT_EQ(wait(500, 9).time(Category::CommHost), 0);
}

TEST_F(GlooTest, ACollectiveThatBeginsAfterTheWaitIsNotWhatItWaitedFor) {
  process().world_size = 2;
  EXPECT_EQ(wait(301.3, 9).time(Category::CommHost), 0);
}

TEST_F(GlooTest, WhatASingleProcessWaitsForIsNoPeer) {
  process().world_size = 1;
  EXPECT_EQ(wait(300, 9).time(Category::CommHost), 0);
}

TEST_F(CpuJobTest, WaitingForAThreadThatSleepsIsNoTransform) {
  const uint32_t producer = thread("producer");
  call(producer, OpClass::Sleep, us(50), us(280));
  call(producer, OpClass::Wait, us(310), us(400), "pthread_cond_wait");
  call(main_, OpClass::Wait, us(100), us(300), "pthread_cond_wait");
  const RankAttribution row = attribute(0, {us(1000)});
  EXPECT_EQ(row.time(Category::InputWait), us(180));
  EXPECT_EQ(row.time(Category::InputTransform), 0);
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

// A prefetch thread that computes makes no calls: only the stack of who waits for it tells.
class QueueTest : public CpuJobTest {
 protected:
  // A step of 1000 us that waits 800 of them, with this stack.
  RankAttribution wait_in(const std::string& stack, size_t steps = 10, size_t every = 1) {
    process().facts["python"] = "3.11.7";
    run.texts[7] = stack;
    std::vector<model::Ns> ends;
    for (size_t i = 0; i < steps; ++i) {
      const double begin = 1000 * double(i);
      if (i % every == 0) {
        call(main_, OpClass::Wait, us(begin + 100), us(begin + 900), "sem_wait");
        process().threads[main_].stacks.push_back({us(begin + 100), 7});
      }
      ends.push_back(us(begin + 1000));
    }
    return attribute(0, ends);
  }
  const std::string library_ = "/usr/lib/python3.11/";
  const std::string queue_ = library_ + "threading.py:327 Condition.wait\n" + library_ +
                             "queue.py:171 Queue.get\n/home/me/train.py:17 <module>";
};

TEST_F(QueueTest, WaitingInAQueueIsInput) {
  EXPECT_EQ(wait_in(queue_).time(attribute::Group::Input), us(8000));
}

TEST_F(QueueTest, WaitingForAFutureIsInput) {
  EXPECT_EQ(wait_in(library_ + "threading.py:327 Condition.wait\n" + library_ +
                    "concurrent/futures/_base.py:451 Future.result\n/home/me/train.py:17 <module>")
                .time(attribute::Group::Input),
            us(8000));
}

// threading.Event().wait(0.03) of an event that nobody sets: a pause, whatever it stands for.
TEST_F(QueueTest, AWaitThatTimesOutIsForNoResult) {
  wait_in(queue_);
  for (model::HostCall& call : process().threads[main_].calls) call.flags |= trace::kFailed;
  std::vector<model::Ns> ends;
  for (size_t i = 1; i <= 10; ++i) ends.push_back(us(1000 * double(i)));
  const RankAttribution row = attribute(0, ends);
  EXPECT_EQ(row.time(attribute::Group::Input), 0);
  EXPECT_EQ(row.time(attribute::Group::Host), 0);
}

TEST_F(CpuJobTest, WhatASingleProcessReceivesIsData) {
  call(main_, OpClass::Receive, us(100), us(300));
  EXPECT_EQ(attribute(0, {us(1000)}).time(Category::InputIo), us(200));
  process().world_size = 2;
  EXPECT_EQ(attribute(0, {us(1000)}).time(Category::CommHost), us(200));
}

// A tracking server confirms what was logged, while a loader brings the data.
TEST_F(CpuJobTest, AnAnswerNextToALoaderIsNoData) {
  call(main_, OpClass::Receive, us(100), us(300));
  const auto waiting = [&] { return attribute(0, {us(1000)}).time(Category::HostWait); };
  EXPECT_EQ(waiting(), 0);
  process().loaders.emplace_back().thread = main_;
  EXPECT_EQ(waiting(), us(200));
}

// A generator that asks a server for each batch: urllib polls its socket with a timeout.
TEST_F(QueueTest, WaitingForASocketIsInput) {
  run.texts[7] = library_ + "socket.py:706 SocketIO.readinto\n" + library_ +
                 "http/client.py:286 HTTPResponse._read_status\n/home/me/train.py:8 batches";
  std::vector<model::Ns> ends;
  for (size_t i = 0; i < 10; ++i) {
    const double begin = 1000 * double(i);
    call(main_, OpClass::Poll, us(begin + 100), us(begin + 900), "poll");
    process().threads[main_].stacks.push_back({us(begin + 100), 7});
    ends.push_back(us(begin + 1000));
  }
  EXPECT_EQ(attribute(0, ends).time(Category::InputUnknown), us(8000));
}

TEST_F(QueueTest, AnInterpreterWithoutStacksIsToldByItsLocks) {
  process().facts["python"] = "3.15.0";
  std::vector<model::Ns> ends;
  for (size_t i = 0; i < 10; ++i) {
    call(main_, OpClass::Wait, us(1000 * double(i) + 100), us(1000 * double(i) + 900), "sem_wait");
    ends.push_back(us(1000 * double(i) + 1000));
  }
  EXPECT_EQ(attribute(0, ends).time(attribute::Group::Input), us(8000));
}

TEST_F(QueueTest, WaitsWithoutAStackAreLikeTheOthers) {
  call(main_, OpClass::Wait, us(20'100), us(20'900), "sem_wait");
  run.texts[7] = queue_;
  RankAttribution row = wait_in(queue_);
  row = attribute(0, {us(10'000), us(21'000)});
  EXPECT_EQ(row.time(attribute::Group::Input), us(8800));
}

TEST_F(QueueTest, WaitingForAThreadsEndIsNoInput) {
  const RankAttribution row =
      wait_in(library_ + "threading.py:1139 Thread._wait_for_tstate_lock\n" + library_ +
              "threading.py:1119 Thread.join\n/home/me/train.py:17 <module>");
  EXPECT_EQ(row.time(attribute::Group::Input), 0);
  EXPECT_EQ(row.time(Category::Compute), us(10'000));
}

TEST_F(QueueTest, AFutureOnceInAWhileIsNoInput) {
  const RankAttribution row = wait_in(queue_, 400, 200);
  EXPECT_EQ(row.time(attribute::Group::Input), 0);
  EXPECT_EQ(row.time(Category::HostCompute), us(1600));
}

TEST_F(QueueTest, ComputeThreadsOfALibraryAreComputing) {
  EXPECT_EQ(
      wait_in(
          "/venv/lib/python3.11/site-packages/torch/autograd/graph.py:10 backward\n/home/me/train.py:17 f")
          .time(Category::Compute),
      us(10'000));
}

TEST_F(QueueTest, WhoTakesBatchesOfALoaderDoesNotWaitForDataElsewhere) {
  process().loaders.resize(1);
  process().loaders[0].thread = main_;
  const RankAttribution row = wait_in(queue_);
  EXPECT_EQ(row.time(attribute::Group::Input), 0);
  EXPECT_EQ(row.time(Category::HostCompute), us(8000));
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
