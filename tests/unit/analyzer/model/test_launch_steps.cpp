// SPDX-License-Identifier: Apache-2.0
// Steps of loops that nothing but their launches tells: graphs, one kernel a step or ten thousand,
// micro-steps.
#include <gtest/gtest.h>

#include <random>

#include "analyzer/model/steps.h"
#include "run_builder.h"

namespace gpuwatch::model {
namespace {

using test::kMs;
using trace::OpClass;

constexpr uint64_t kUs = 1000;

class LaunchStepsTest : public test::OneThreadTest {
 protected:
  LaunchStepsTest() {
    optimizer_ = trace_.operation("step", OpClass::OptimizerStep);
    launch_ = trace_.operation("cudaLaunchKernel", OpClass::Launch);
    graph_ = trace_.operation("cudaGraphLaunch", OpClass::GraphLaunch);
    copy_ = trace_.operation("cudaMemcpyAsync", OpClass::Copy);
    sync_ = trace_.operation("cudaStreamSynchronize", OpClass::Sync);
  }

  void launch(uint64_t place) {
    slots_.host(launch_, now_, now_ + 2 * kUs, 0, 0, trace::CallDetail(0, place, 7, 255, 0, 0));
    now_ += 5 * kUs;
  }
  void replay() {
    slots_.host(graph_, now_, now_ + 10 * kUs);
    now_ += 12 * kUs;
  }
  void synchronise(uint64_t us) {
    slots_.host(sync_, now_, now_ + us * kUs);
    now_ += (us + 2) * kUs;
  }
  void copy(uint8_t direction) {
    slots_.host(copy_, now_, now_ + 3 * kUs, 0, 0, trace::CallDetail(4, 0x20, 7, direction, 0, 0));
    now_ += 5 * kUs;
  }
  void pause(uint64_t us) { now_ += us * kUs; }

  std::vector<Step> steps() { return find_steps(run_, process()).steps; }
  static double mean_ms(const std::vector<Step>& steps) {
    return double(steps.back().end - steps.front().begin) / double(steps.size()) / double(kMs);
  }

  uint16_t optimizer_, launch_, graph_, copy_, sync_;
  uint64_t now_ = 1000 * kMs;
};

TEST_F(LaunchStepsTest, EachReplayOfAGraphIsAStepWhateverIsLogged) {
  for (int i = 0; i < 200; ++i) {
    replay();
    if (i % 10 == 9) synchronise(500);  // a log line
  }
  EXPECT_GE(steps().size(), 198u);
}

TEST_F(LaunchStepsTest, ReplaysWithHostWorkBetweenAreStepsOfThatLength) {
  for (int i = 0; i < 100; ++i) replay(), pause(300);
  const auto found = steps();
  ASSERT_GE(found.size(), 98u);
  EXPECT_NEAR(mean_ms(found), 0.312, 0.001);
}

// XLA captures parts of a graph as it builds it, and its GPU works only for the graph's launches.
TEST_F(LaunchStepsTest, WhatIsCapturedDidNotRunAndIsNoUnseenWork) {
  const auto capture = trace_.operation("cuStreamBeginCaptureToGraph", OpClass::Capture),
             end = trace_.operation("cuStreamEndCapture", OpClass::Capture);
  test::Slots device;
  uint32_t correlation = 0;
  const auto seen = [&](uint16_t operation, uint64_t us) {
    slots_.host(operation, now_, now_ + 10 * kUs, ++correlation);
    device.device(trace::RecordKind::GraphRun, 1, now_ + 12 * kUs, now_ + (12 + us) * kUs, correlation, 7);
    now_ += (20 + us) * kUs;
  };
  for (uint64_t kernel = 0; kernel < 50; ++kernel) {
    slots_.host(capture, now_, now_ + kUs);
    now_ += 2 * kUs;
    launch(kernel);
    slots_.host(end, now_, now_ + kUs);
    now_ += 2 * kUs;
  }
  for (int i = 0; i < 100; ++i) seen(graph_, 90);
  trace_.thread(0, 2, device);
  EXPECT_GE(steps().size(), 98u);
}

// What torch.cuda.graph's manual shows: some rounds with the optimizer on a side stream, then the whole step
// replayed.
TEST_F(LaunchStepsTest, TheOptimizersRoundsBeforeTheGraphAreNotTheTraining) {
  for (int i = 0; i < 3; ++i) {
    for (uint64_t kernel = 0; kernel < 10; ++kernel) launch(kernel);
    slots_.host(optimizer_, now_, now_ + 5 * kUs, 1);
    now_ += 10 * kUs;
  }
  for (int i = 0; i < 200; ++i) replay(), pause(100);
  EXPECT_GE(steps().size(), 195u);
}

// Its optimizer steps on: the graph holds forward and backward.
TEST_F(LaunchStepsTest, AnOptimizerBetweenReplaysMarksTheSteps) {
  for (int i = 0; i < 20; ++i) {
    for (int micro = 0; micro < 4; ++micro) replay();
    slots_.host(optimizer_, now_, now_ + 5 * kUs, 1);
    now_ += 10 * kUs;
  }
  EXPECT_EQ(steps().size(), 20u);
}

TEST_F(LaunchStepsTest, TenThousandEqualKernelsAreOneStepWhereTheHostWaits) {
  for (int i = 0; i < 8; ++i) {
    for (int kernel = 0; kernel < 10'000; ++kernel) launch(5);
    synchronise(40);
  }
  const auto found = steps();
  ASSERT_EQ(found.size(), 8u);
  EXPECT_NEAR(mean_ms(found), 50.04, 0.05);
}

// A busy machine takes the core away here and there: the host's own stops recur at equal distances.
TEST_F(LaunchStepsTest, TenThousandEqualKernelsAreOneStepWhereTheHostDoesOtherWork) {
  uint32_t random = 1;
  for (int i = 0; i < 8; ++i) {
    for (int kernel = 0; kernel < 10'000; ++kernel) {
      launch(5);
      if ((random = random * 1664525 + 1013904223) >> 18 == 0) pause(4000);
    }
    pause(3000);
  }
  EXPECT_NEAR(double(steps().size()), 8, 1);
}

// A profile of a single step on an A100 became 14 "steps" of 0.1 ms: copies of AlexNet's weights.
TEST_F(LaunchStepsTest, ParametersOnTheirWayToTheDeviceAreNoSteps) {
  for (int parameter = 0; parameter < 16; ++parameter) {
    copy(1);
    synchronise(100);
  }
  for (uint64_t kernel = 0; kernel < 10; ++kernel) launch(kernel);
  synchronise(2000);
  EXPECT_TRUE(steps().empty());
}

TEST_F(LaunchStepsTest, OneKernelAStepIsCutAtTheSynchronisation) {
  for (int i = 0; i < 20; ++i) {
    for (int k = 0; k < 3; ++k) launch(5), pause(10);
    synchronise(7000);
  }
  const auto found = steps();
  ASSERT_GE(found.size(), 19u);
  for (size_t i = 1; i < found.size(); ++i)
    EXPECT_NEAR(double(found[i].end - found[i].begin) / double(kMs), 7.05, 0.01);
}

TEST_F(LaunchStepsTest, OneKernelAStepWithoutAnyStopIsAStepEach) {
  for (int i = 0; i < 500; ++i) launch(5);
  EXPECT_GE(steps().size(), 498u);
}

TEST_F(LaunchStepsTest, OneKernelAndItsInputAreAStepEachWhateverIsLogged) {
  for (int i = 0; i < 100; ++i) {
    copy(1), launch(5);
    if (i % 20 == 19) synchronise(300);
  }
  EXPECT_GE(steps().size(), 98u);
}

TEST_F(LaunchStepsTest, MicroStepsOfTwoGraphsAreOneStep) {
  for (int i = 0; i < 50; ++i) {
    for (int micro = 0; micro < 4; ++micro) copy(1), replay();
    launch(9);
  }
  const auto found = steps();
  EXPECT_GE(found.size(), 48u);
  EXPECT_LE(found.size(), 50u);
}

// schedule(active=5), a short trial: the host brings input at each step.
TEST_F(LaunchStepsTest, FewStepsAreSeenByWhatTheHostDoesInEach) {
  for (int i = 0; i < 6; ++i) {
    copy(1);
    for (const uint64_t place : {1, 2, 2, 3}) launch(place);
    synchronise(200);
  }
  EXPECT_GE(steps().size(), 5u);
}

// Six equal blocks of a network, once: the host launches them without a stop.
TEST_F(LaunchStepsTest, FewRepeatsWithoutAStopAreLayers) {
  for (int i = 0; i < 6; ++i)
    for (const uint64_t place : {1, 2, 2, 3}) launch(place);
  EXPECT_TRUE(steps().empty());
}

// Sentences of 5 to 9 words: a kernel for each word forward, one backward, one update.
TEST_F(LaunchStepsTest, StepsMayDifferInLength) {
  constexpr int kSteps = 60;
  for (int i = 0; i < kSteps; ++i) {
    const int words = 5 + i * 7 % 5;
    for (int k = 0; k < words; ++k) launch(1), launch(2);
    for (int k = 0; k < words; ++k) launch(3);
    launch(4);
  }
  const auto found = steps();
  ASSERT_GE(found.size(), size_t(kSteps - 2));
  EXPECT_NEAR(mean_ms(found), 0.11, 0.005);  // 3 x 7 + 1 launches of 5 us
}

TEST_F(LaunchStepsTest, KernelsInAnyOrderAreNoSteps) {
  std::mt19937 random(20);
  for (int i = 0; i < 400; ++i) launch(1 + random() % 7);
  EXPECT_TRUE(steps().empty());
}

// Batches of another size each time: equal kernels, other grids.
Run varying_grids(int steps) {
  Run run;
  Process& process = run.processes.emplace_back();
  process.imported_from = "torch.profiler";
  process.threads.emplace_back();
  process.training_thread = 0;
  Device& device = process.devices.emplace_back();
  Ns now = 1'000'000'000;
  for (int step = 0; step < steps; ++step) {
    for (const char* name : {"embed", "layer", "layer", "loss", "update"}) {
      device.operations.push_back({.begin = now,
                                   .end = now + 50'000,
                                   .kernel = uint32_t(run.kernels.size()),
                                   .kind = trace::RecordKind::Kernel,
                                   .flags = 0});
      run.kernels.push_back({name, {uint32_t(100 + step * 13 % 97), 1, 1}, {256, 1, 1}, false});
      now += 60'000;
    }
  }
  process.start = 1'000'000'000;
  process.last_seen = process.alive_until = now;
  return run;
}

TEST(DeviceSteps, KernelsAreTheSameWhateverTheirGrid) {
  const model::Run run = varying_grids(40);
  const StepSeries series = find_steps(run, run.processes[0]);
  EXPECT_EQ(series.source, "launches");
  ASSERT_GE(series.steps.size(), 38u);
  for (const Step& step : series.steps) EXPECT_NEAR(double(step.end - step.begin), 300'000, 20'000);
}

}  // namespace
}  // namespace gpuwatch::model
