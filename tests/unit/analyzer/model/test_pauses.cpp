// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/pauses.h"

#include <gtest/gtest.h>

namespace gpuwatch::model {
namespace {

using trace::OpClass;

constexpr Ns kMs = 1'000'000;
constexpr Ns kSecond = 1000 * kMs;

// Optimizer steps of 20 ms on the CPU, and machine samples each second at their ends.
class PausesTest : public ::testing::Test {
 protected:
  PausesTest() {
    run_.operations = {{"step", OpClass::OptimizerStep}, {"epoll_wait", OpClass::Poll}};
    run_.processes.resize(1);
    run_.processes[0].threads.resize(1);
    run_.processes[0].training_thread = 0;
    run_.processes[0].start = now_;
    sample();
  }
  Process& process() { return run_.processes[0]; }

  void sample() {
    MachineSample sample{};
    sample.time = now_;
    sample.cpu_ns = cpu_;
    process().machine_samples.push_back(sample);
  }
  void train(size_t steps) {
    for (size_t i = 0; i < steps; ++i) {
      now_ += 20 * kMs;
      cpu_ += 20 * kMs;
      process().threads[0].calls.push_back({now_ - 2 * kMs, now_, 1, 0, kNone, 0, OpClass::OptimizerStep, 0});
      if (now_ - process().machine_samples.back().time >= kSecond) sample();
    }
  }
  // `stack` empty: in no recorded call.
  void pass(Ns time, const std::string& stack = "", Ns cpu = 0) {
    if (!stack.empty()) {
      const auto text = static_cast<uint32_t>(run_.texts.size() + 1);
      run_.texts[text] = stack;
      process().threads[0].calls.push_back({now_, now_ + time, 0, 0, kNone, 1, OpClass::Poll, 0});
      process().threads[0].stacks.push_back({now_, text});
    }
    now_ += time;
    cpu_ += cpu;
  }
  StepSeries steps() {
    process().last_seen = now_;
    return find_steps(run_, process());
  }
  size_t interrupted() {
    size_t count = 0;
    for (const Step& step : steps().steps) count += step.is_interrupted;
    return count;
  }

  const std::string event_loop_ =
      "/usr/lib/python3.11/selectors.py:468 EpollSelector.select\n"
      "/usr/lib/python3.11/asyncio/base_events.py:1884 BaseEventLoop._run_once\n"
      "/venv/lib/python3.11/site-packages/ipykernel/kernelapp.py:1 start";
  model::Run run_;
  Ns now_ = 100 * kSecond, cpu_ = 0;
};

TEST_F(PausesTest, ANotebookBetweenTwoCells) {
  train(80);
  pass(15 * kSecond, event_loop_);
  train(40);
  const StepSeries series = steps();
  ASSERT_EQ(series.pauses.size(), 1u);
  EXPECT_EQ(series.pauses[0].kind, Pause::Kind::kPrompt);
  EXPECT_EQ(series.pauses[0].time.length(), 15 * kSecond);
  ASSERT_EQ(series.steps.size(), 120u);
  EXPECT_EQ(interrupted(), 1u);
  EXPECT_TRUE(series.steps[80].is_interrupted);
}

TEST_F(PausesTest, AStoppedProcess) {
  train(200);
  pass(15 * kSecond);
  train(200);
  const StepSeries series = steps();
  ASSERT_EQ(series.pauses.size(), 1u);
  EXPECT_EQ(series.pauses[0].kind, Pause::Kind::kStopped);
  EXPECT_TRUE(series.steps[200].is_interrupted);
}

TEST_F(PausesTest, ALongEvaluationIsNone) {
  train(200);
  pass(15 * kSecond, "", 15 * kSecond);
  train(200);
  EXPECT_TRUE(steps().pauses.empty());
  EXPECT_EQ(interrupted(), 0u);
}

TEST_F(PausesTest, WaitingForAPeerIsNone) {
  train(200);
  pass(15 * kSecond,
       "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py:1 barrier\n"
       "/home/me/train.py:9 main");
  train(200);
  EXPECT_TRUE(steps().pauses.empty());
}

// The user's own call is what waits; that a cell was called by an event loop does not matter.
TEST_F(PausesTest, ARequestInsideACellIsNone) {
  train(200);
  pass(15 * kSecond,
       "/usr/lib/python3.11/socket.py:1 readinto\n/tmp/ipykernel_17/3141.py:5 <module>\n" + event_loop_);
  train(200);
  EXPECT_TRUE(steps().pauses.empty());
}

// A program that serves requests between its steps.
TEST_F(PausesTest, WhatRecursBelongsToTheJob) {
  for (int i = 0; i < 40; ++i) {
    train(5);
    pass(2 * kSecond, event_loop_);
  }
  EXPECT_TRUE(steps().pauses.empty());
}

TEST_F(PausesTest, WithoutSamplesNothingIsSaid) {
  process().machine_samples.clear();
  sample();
  train(20);
  process().machine_samples.clear();
  pass(15 * kSecond);
  sample();
  train(20);
  process().machine_samples.clear();
  EXPECT_TRUE(steps().pauses.empty());
}

}  // namespace
}  // namespace gpuwatch::model
