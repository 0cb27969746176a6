// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/model/roles.h"
#include "analyzer/model/steps.h"
#include "run_builder.h"

namespace gpuwatch::model {
namespace {

using test::Slots;
using test::TraceBuilder;
using trace::OpClass;

class RolesTest : public test::RunTest {};

TEST_F(RolesTest, TheConsumerThatAlsoTrainsIsTheTrainingThread) {
  TraceBuilder trace;
  trace.process({});
  const auto next = trace.operation("next", OpClass::LoaderNext),
             step = trace.operation("step", OpClass::OptimizerStep);
  const auto launch = trace.operation("cudaLaunchKernel", OpClass::Launch);
  Slots background, training, autograd;
  for (uint64_t i = 0; i < 50; ++i) background.host(next, 1000 + i, 1000 + i, 1, static_cast<uint32_t>(i));
  for (uint64_t i = 0; i < 10; ++i)
    training.host(next, 1000 + i, 1000 + i, 2, static_cast<uint32_t>(i)).host(step, 2000 + i, 2000 + i, 1);
  for (uint64_t i = 0; i < 90; ++i) autograd.host(launch, 1000 + i, 1000 + i, static_cast<uint32_t>(i));
  trace.thread(0, 1, background);
  trace.thread(0, 2, training);
  trace.thread(0, 3, autograd);
  const auto run = build(trace);
  EXPECT_EQ(run.processes[0].threads.at(run.processes[0].training_thread).tid, 2u);
}

// XLA tries kernels out on threads of its own, for most of a short run.
TEST_F(RolesTest, TheFirstThreadTrainsIfItLaunchesToTheEnd) {
  for (const bool to_the_end : {true, false}) {
    TraceBuilder trace;
    trace.process({.pid = 7});
    const auto launch = trace.operation("cuLaunchKernel", OpClass::Launch);
    Slots first, tuning;
    for (uint64_t i = 0; i < 90; ++i) tuning.host(launch, 1000 + 10 * i, 1001 + 10 * i);
    for (uint64_t i = 0; i < 40; ++i)
      first.host(launch, 1000 + (to_the_end ? 50 : 5) * i, 1001 + (to_the_end ? 50 : 5) * i);
    trace.thread(0, 7, first);
    trace.thread(0, 8, tuning);
    const auto run = build(trace);
    EXPECT_EQ(run.processes[0].threads.at(run.processes[0].training_thread).tid, to_the_end ? 7u : 8u);
  }
}

TEST(SeparateRanks, ARankThatStartedOthersIsNotChargedForThem) {
  model::Run run;
  run.processes.resize(4);  // 0 starts 1, a shell that starts 2; 3 starts another program
  for (const uint32_t rank : {0, 2, 3}) run.processes[rank].training_thread = 0;
  for (Process& process : run.processes) process.machine_samples.emplace_back().other_children_cpu_ns = 5;
  run.processes[1].parent = 0;
  run.processes[2].parent = 1;
  separate_ranks(run);
  EXPECT_EQ(run.processes[0].machine_samples[0].other_children_cpu_ns, 0);
  EXPECT_EQ(run.processes[2].machine_samples[0].other_children_cpu_ns, 5);
  EXPECT_EQ(run.processes[3].machine_samples[0].other_children_cpu_ns, 5);
  run.processes[0].parent = 2;
  separate_ranks(run);  // ends
}

TEST_F(RolesTest, AThreadThatIteratesTheLoaderAheadOfTrainingIsNoTrainingThread) {
  TraceBuilder trace;
  trace.process({});
  const auto next = trace.operation("next", OpClass::LoaderNext),
             step = trace.operation("step", OpClass::OptimizerStep);
  Slots first_epoch, second_epoch, training;
  for (uint64_t i = 0; i < 10; ++i) {
    first_epoch.host(next, 1000 + 10 * i, 1001 + 10 * i, 1, static_cast<uint32_t>(i));
    second_epoch.host(next, 2000 + 10 * i, 2001 + 10 * i, 1, static_cast<uint32_t>(i));
    training.host(step, 1008 + 10 * i, 1009 + 10 * i, 1);
  }
  trace.thread(0, 1, first_epoch);
  trace.thread(0, 2, training);
  trace.thread(0, 3, second_epoch);
  const auto run = build(trace);
  EXPECT_EQ(run.processes[0].threads.at(run.processes[0].training_thread).tid, 2u);
  EXPECT_TRUE(is_fed_by_other_threads(run.processes[0]));
  const StepSeries series = find_steps(run, run.processes[0]);
  EXPECT_EQ(series.source, "optimizer");
  ASSERT_EQ(series.steps.size(), 10u);
  EXPECT_EQ(series.steps[4].batches, 1u);
}

TEST_F(RolesTest, AProcessThatOnlyReadsIsNoRank) {
  TraceBuilder trace;
  trace.process({});
  trace.thread(0, 1, Slots().host(trace.operation("read", OpClass::Read), 1000, 1001));
  const auto run = build(trace);
  EXPECT_EQ(run.processes[0].training_thread, kNone);
  EXPECT_FALSE(run.processes[0].is_rank());
}

TEST_F(RolesTest, ChildrenFindTheirParentsByPidAndTime) {
  TraceBuilder trace;
  trace.process({.ordinal = 0, .pid = 50, .parent_pid = 1, .start_ticks = 1000});
  trace.process({.ordinal = 1, .pid = 50, .parent_pid = 1, .start_ticks = 5000});  // the pid, used again
  trace.process({.ordinal = 2, .pid = 60, .parent_pid = 50, .start_ticks = 2000});
  trace.process({.ordinal = 3, .pid = 61, .parent_pid = 50, .start_ticks = 6000});
  trace.process(
      {.ordinal = 4, .pid = 62, .parent_pid = 61, .parent_ordinal = 2, .start_ticks = 7000});  // forked
  trace.process(
      {.ordinal = 5, .pid = 63, .parent_pid = 63, .parent_ordinal = 5, .start_ticks = 7000});  // nonsense
  const auto run = build(trace);
  EXPECT_EQ(run.processes[2].parent, 0u);
  EXPECT_EQ(run.processes[3].parent, 1u);
  EXPECT_EQ(run.processes[4].parent, 2u);
  EXPECT_EQ(run.processes[5].parent, kNone);
}

TEST_F(RolesTest, SeesThatAProcessIsStillRunning) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const uint64_t now_ns =
      static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
  TraceBuilder trace;
  trace.process({.ordinal = 0, .pid = static_cast<uint32_t>(getpid()), .start_ticks = now_ns, .host = host});
  trace.process({.ordinal = 1,
                 .pid = static_cast<uint32_t>(getpid()),
                 .start_ticks = 1000,
                 .host = host});  // another one, long ago
  trace.process(
      {.ordinal = 2, .pid = static_cast<uint32_t>(getpid()), .start_ticks = now_ns, .host = "elsewhere"});
  trace.process({.ordinal = 3, .pid = 0x7ffffff0, .start_ticks = now_ns, .host = host});
  const auto run = build(trace);
  EXPECT_TRUE(run.processes[0].is_running);
  EXPECT_FALSE(run.processes[1].is_running);
  EXPECT_FALSE(run.processes[2].is_running);
  EXPECT_FALSE(run.processes[3].is_running);
}

}  // namespace
}  // namespace gpuwatch::model
