// SPDX-License-Identifier: Apache-2.0
// Threads on run queues against schedules worked out by hand.
#include <gtest/gtest.h>

#include <algorithm>

#include "analyzer/predict/run_queues.h"

namespace gpuwatch::predict {
namespace {

Thread computing(size_t core) {
  Thread thread;
  thread.cpu_share = 1;
  thread.core = core;
  return thread;
}

TEST(RunQueues, LetThreeThreadsBeOneAloneAndTwoThatShare) {
  RunQueues queues(2, 3, {});
  Thread a = computing(0), b = computing(0), c = computing(1);
  queues.share({&a, &b, &c}, 0);
  EXPECT_NEAR(a.rate, 0.5, 1e-6);
  EXPECT_NEAR(b.rate, 0.5, 1e-6);
  EXPECT_NEAR(c.rate, 1, 1e-6);
  EXPECT_NEAR(queues.cores_used(), 2, 1e-6);
}

TEST(RunQueues, TakeOverAtTheSecondTickAfterACoreRanDry) {
  RunQueues queues(2, 2, {.tick_ns = 4e6, .looks = 2});
  Thread a = computing(0), b = computing(0);
  const std::vector<Thread*> both = {&a, &b};
  queues.share(both, 1e6);  // core 1 is idle; ticks come at 4 and 8 ms
  EXPECT_NEAR(a.rate + b.rate, 1, 1e-6);
  EXPECT_DOUBLE_EQ(queues.next_change_ns(), 4e6);
  queues.share(both, 4e6);
  EXPECT_NEAR(a.rate + b.rate, 1, 1e-6);
  EXPECT_DOUBLE_EQ(queues.next_change_ns(), 8e6);
  queues.share(both, 6e6);  // something else changed: no further look
  EXPECT_NEAR(a.rate + b.rate, 1, 1e-6);
  queues.share(both, 8e6);
  EXPECT_NEAR(a.rate, 1, 1e-6);
  EXPECT_NEAR(b.rate, 1, 1e-6);
  EXPECT_NE(a.core, b.core);
}

TEST(RunQueues, BeginToLookAnewWhenNoCoreIsIdleMeanwhile) {
  RunQueues queues(2, 3, {.tick_ns = 4e6, .looks = 2});
  Thread a = computing(0), b = computing(0), c = computing(1);
  queues.share({&a, &b}, 1e6);
  queues.share({&a, &b}, 4e6);
  queues.share({&a, &b, &c}, 5e6);
  queues.share({&a, &b}, 7e6);
  queues.share({&a, &b}, 8e6);  // the first look
  EXPECT_NEAR(a.rate + b.rate, 1, 1e-6);
  queues.share({&a, &b}, 12e6);
  EXPECT_NEAR(a.rate + b.rate, 2, 1e-6);
}

// A damaged trace has times at which a double knows no single nanoseconds, or not even ticks.
TEST(RunQueues, TakeOverAfterTheirLooksHoweverLateItIs) {
  for (const double begin : {1e15, 1e16, 1e18, 1e20, 1e24}) {
    RunQueues queues(2, 2, {.tick_ns = 4e6, .looks = 3});
    Thread a = computing(0), b = computing(0);
    double now = begin;
    for (int look = 0; look < 4; ++look) {
      queues.share({&a, &b}, now);
      now = std::min(queues.next_change_ns(), 2 * now);
    }
    EXPECT_NEAR(a.rate + b.rate, 2, 1e-6) << begin;
  }
}

TEST(RunQueues, TakeOverAtOnceWithoutLooks) {
  RunQueues queues(2, 2, {.looks = 0});
  Thread a = computing(0), b = computing(0);
  queues.share({&a, &b}, 1e6);
  EXPECT_NEAR(a.rate + b.rate, 2, 1e-6);
}

TEST(RunQueues, WakeThreadsOnAnIdleCoreElseWhereTheyRanLast) {
  RunQueues queues(2, 3, {});
  Thread a = computing(0), b = computing(1), woken = computing(0);
  queues.wake(woken, {&a});
  EXPECT_EQ(woken.core, 1u);
  woken.core = 0;
  queues.wake(woken, {&a, &b});
  EXPECT_EQ(woken.core, 0u);
}

TEST(RunQueues, LetThreadsThatMostlySleepRunFirst) {
  RunQueues queues(1, 2, {});
  Thread worker = computing(0), reader = computing(0);
  reader.cpu_share = 0.25;
  queues.share({&worker, &reader}, 0);
  EXPECT_NEAR(reader.rate, 1, 2e-3);
  EXPECT_NEAR(worker.rate, 0.75, 1e-3);
  reader = computing(0);
  reader.comes_first = true;
  queues.share({&worker, &reader}, 0);
  EXPECT_NEAR(reader.rate, 1, 2e-3);
  EXPECT_LT(worker.rate, 0.01);
}

TEST(RunQueues, ShareWhatOthersLeaveOfTheCores) {
  RunQueues queues(1.5, 2, {});
  Thread a = computing(0), b = computing(1);
  queues.share({&a, &b}, 0);
  EXPECT_NEAR(a.rate + b.rate, 1.5, 1e-6);
  EXPECT_NEAR(queues.cores_used(), 1.5, 1e-6);
}

}  // namespace
}  // namespace gpuwatch::predict
