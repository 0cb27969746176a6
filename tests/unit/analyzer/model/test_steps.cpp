// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "analyzer/model/launch_period.h"
#include "analyzer/model/steps.h"
#include "run_builder.h"

namespace gpuwatch::model {
namespace {

using test::kMs;
using trace::OpClass;

class StepsTest : public test::OneThreadTest {
 protected:
  StepsTest() {
    start_ = trace_.operation("iter", OpClass::LoaderStart);
    next_ = trace_.operation("next", OpClass::LoaderNext);
    optimizer_ = trace_.operation("step", OpClass::OptimizerStep);
    launch_ = trace_.operation("cudaLaunchKernel", OpClass::Launch);
    copy_ = trace_.operation("cudaMemcpyAsync", OpClass::Copy);
    sync_ = trace_.operation("cudaStreamSynchronize", OpClass::Sync);
    wait_ = trace_.operation("sem_wait", OpClass::Wait);
    trace_.loader({.id = 900, .batch_size = 16});
    trace_.loader({.id = 901, .batch_size = 100});
  }

  void next(uint64_t begin, uint64_t end, uint32_t index, uint32_t loader = 900) {
    slots_.host(next_, begin * kMs, end * kMs, loader, index);
  }
  void optimizer(uint64_t begin, uint64_t end, uint32_t id = 1) {
    slots_.host(optimizer_, begin * kMs, end * kMs, id);
  }

  StepSeries steps() { return find_steps(run_, process()); }

  // A program of the CUDA runtime alone: waits for its loader thread, copies, launches; each launch from a
  // place of its own. Returns the end of the step.
  uint64_t cuda_step(uint64_t at, const std::vector<uint64_t>& places, uint64_t wait = 5 * kMs) {
    slots_.host(wait_, at, at + wait);
    at += wait;
    slots_.host(copy_, at, at + 1000, 0, 0, trace::CallDetail(1 << 20, 0x10, 7, 1, 0, 0));
    at += 2000;
    for (const uint64_t place : places) {
      slots_.host(launch_, at, at + 1000, 0, 0, trace::CallDetail(0, place, 7, 255, 0, 0));
      at += 5000;
    }
    return at - 4000;
  }

  uint16_t start_, next_, optimizer_, launch_, copy_, sync_, wait_;
};

TEST_F(StepsTest, AnOptimizerStepEndsAStep) {
  slots_.host(start_, 1 * kMs, 50 * kMs, 900, 0);
  next(50, 100, 0), optimizer(105, 110);
  for (uint64_t i = 1; i < 20; ++i)
    next(100 + 10 * i, 103 + 10 * i, static_cast<uint32_t>(i)), optimizer(108 + 10 * i, 110 + 10 * i);
  const auto series = steps();
  EXPECT_EQ(series.source, "optimizer");
  ASSERT_EQ(series.steps.size(), 20u);
  EXPECT_EQ(series.steps[0].begin, static_cast<Ns>(1 * kMs));
  EXPECT_TRUE(series.steps[0].is_warm_up);
  for (size_t i = 1; i < 20; ++i) {
    EXPECT_EQ(series.steps[i].begin, series.steps[i - 1].end);
    EXPECT_EQ(series.steps[i].end, static_cast<Ns>((110 + 10 * i) * kMs));
    EXPECT_EQ(series.steps[i].batches, 1u);
    EXPECT_FALSE(series.steps[i].is_warm_up);
  }
  EXPECT_DOUBLE_EQ(series.samples_per_step, 16);
}

// PyTorch 2.0 with torch.compile: the optimizer's hooks are gone after the first steps.
TEST_F(StepsTest, AnOptimizerThatIsSeenNoMoreLeavesTheLoader) {
  for (uint64_t i = 0; i < 3; ++i) next(20 * i, 20 * i + 5, uint32_t(i)), optimizer(20 * i + 10, 20 * i + 15);
  for (uint64_t i = 3; i < 100; ++i) next(20 * i, 20 * i + 5, uint32_t(i));
  const auto series = steps();
  EXPECT_EQ(series.source, "loader");
  EXPECT_EQ(series.steps.size(), 100u);
}

// Keras asks for as many batches as it needs and no more; then the model is saved, and Python ends.
TEST_F(StepsTest, WhatFollowsTheLastBatchIsNoStep) {
  for (uint64_t i = 0; i < 50; ++i) next(20 * i, 20 * i + 5, uint32_t(i));
  slots_.host(copy_, 3000 * kMs, 3001 * kMs);
  EXPECT_EQ(steps().steps.size(), 50u);  // killed: it may hang in the last
  run_.processes.front().end_state = EndState::kExited;
  EXPECT_EQ(steps().steps.size(), 49u);
}

TEST_F(StepsTest, AnEvaluationAfterTrainingLeavesTheOptimizer) {
  for (uint64_t i = 0; i < 10; ++i)
    next(20 * i, 20 * i + 5, uint32_t(i)), optimizer(20 * i + 10, 20 * i + 15);
  for (uint64_t i = 10; i < 100; ++i) next(20 * i, 20 * i + 5, uint32_t(i - 10), 901);
  EXPECT_EQ(steps().source, "optimizer");
}

// Rounds before the capture, the capture, then only launches of the graph: the loader tells the steps.
TEST_F(StepsTest, AnOptimizerInAGraphMarksNoSteps) {
  const uint16_t begin = trace_.operation("cudaStreamBeginCapture", OpClass::Capture);
  const uint16_t end = trace_.operation("cudaStreamEndCapture", OpClass::Capture);
  const uint16_t graph = trace_.operation("cudaGraphLaunch", OpClass::GraphLaunch);
  next(0, 5, 0);
  for (uint64_t i = 0; i < 3; ++i) optimizer(10 + 10 * i, 12 + 10 * i);
  slots_.host(begin, 50 * kMs, 51 * kMs), optimizer(60, 62), slots_.host(end, 70 * kMs, 71 * kMs);
  for (uint64_t i = 1; i < 20; ++i) {
    next(100 + 10 * i, 103 + 10 * i, static_cast<uint32_t>(i));
    slots_.host(graph, (104 + 10 * i) * kMs, (105 + 10 * i) * kMs);
  }
  const auto series = steps();
  EXPECT_EQ(series.source, "loader");
  EXPECT_EQ(series.steps.size(), 20u);
  EXPECT_TRUE(series.steps[0].is_warm_up);
}

TEST_F(StepsTest, GradientAccumulationTakesSeveralBatchesAStep) {
  for (uint64_t i = 0; i < 10; ++i) {
    for (uint64_t j = 0; j < 4; ++j)
      next(100 * i + 20 * j, 100 * i + 20 * j + 5, static_cast<uint32_t>(4 * i + j));
    optimizer(100 * i + 90, 100 * i + 99);
  }
  const auto series = steps();
  ASSERT_EQ(series.steps.size(), 10u);
  for (const auto& step : series.steps) EXPECT_EQ(step.batches, 4u);
  EXPECT_DOUBLE_EQ(series.samples_per_step, 64);
}

TEST_F(StepsTest, TwoOptimizersOfOneIterationAreOneStep) {
  for (uint64_t i = 0; i < 10; ++i) {
    next(100 * i, 100 * i + 5, static_cast<uint32_t>(i));
    optimizer(100 * i + 40, 100 * i + 45, 1);
    optimizer(100 * i + 90, 100 * i + 99, 2);
  }
  const auto series = steps();
  ASSERT_EQ(series.steps.size(), 10u);
  EXPECT_EQ(series.steps[3].end, static_cast<Ns>(399 * kMs));
}

// Folds, stages and federated clients: each has an optimizer of its own, and one follows another.
TEST_F(StepsTest, OptimizersThatFollowEachOtherTrainAllTheTime) {
  for (uint64_t i = 0; i < 60; ++i)
    next(10 * i, 10 * i + 3, uint32_t(i)), optimizer(10 * i + 8, 10 * i + 10, uint32_t(1 + i / 12));
  EXPECT_EQ(steps().steps.size(), 60u);
}

// The memory of an optimizer that is gone is the next one's.
TEST_F(StepsTest, ANewOptimizerAtAnOldAddressTrainsAllTheTime) {
  for (uint64_t i = 0; i < 80; ++i)
    next(10 * i, 10 * i + 3, uint32_t(i)), optimizer(10 * i + 8, 10 * i + 10, uint32_t(1 + i / 10 % 2));
  EXPECT_EQ(steps().steps.size(), 80u);
}

// A critic that steps five times for each step of the generator.
TEST_F(StepsTest, AnOptimizerOfSeveralTurnsIsPartOfTheIteration) {
  for (uint64_t i = 0; i < 20; ++i) {
    next(60 * i, 60 * i + 3, uint32_t(i)), optimizer(60 * i + 5, 60 * i + 10, 2);
    for (uint64_t k = 0; k < 5; ++k) optimizer(60 * i + 10 * k + 11, 60 * i + 10 * k + 15, 1);
  }
  EXPECT_EQ(steps().steps.size(), 100u);
}

TEST_F(StepsTest, EvaluationIsNoPartOfAStep) {
  uint64_t t = 0;
  for (uint32_t epoch = 0; epoch < 3; ++epoch) {
    for (uint32_t i = 0; i < 10; ++i, t += 10) next(t, t + 5, i), optimizer(t + 8, t + 10);
    for (uint32_t i = 0; i < 5; ++i, t += 100) next(t, t + 50, i, 901);
  }
  const auto series = steps();
  ASSERT_EQ(series.steps.size(), 30u);
  EXPECT_EQ(series.steps[10].begin, static_cast<Ns>(100 * kMs + 450 * kMs))
      << "after the last evaluation batch";
  EXPECT_EQ(series.steps[11].begin, series.steps[10].end);
  EXPECT_DOUBLE_EQ(series.samples_per_step, 16);
}

TEST_F(StepsTest, TwoLoadersOfEachStepAreBothTraining) {
  for (uint64_t i = 0; i < 10; ++i) {
    next(100 * i, 100 * i + 5, static_cast<uint32_t>(i));
    next(100 * i + 5, 100 * i + 8, static_cast<uint32_t>(i), 901);
    optimizer(100 * i + 90, 100 * i + 99);
  }
  const auto series = steps();
  ASSERT_EQ(series.steps.size(), 10u);
  for (size_t i = 1; i < 10; ++i) EXPECT_EQ(series.steps[i].begin, series.steps[i - 1].end);
  EXPECT_DOUBLE_EQ(series.samples_per_step, 16);
}

TEST_F(StepsTest, TrainingThatChangesItsLoaderIsNoEvaluation) {
  uint64_t t = 0;
  for (const uint32_t loader : {900u, 901u, 902u}) {
    for (uint32_t i = 0; i < 10; ++i, t += 10) next(t, t + 5, i, loader), optimizer(t + 8, t + 10);
  }
  trace_.loader({.id = 902, .batch_size = 4});
  const auto series = steps();
  ASSERT_EQ(series.steps.size(), 30u);
  for (size_t i = 1; i < 30; ++i) EXPECT_EQ(series.steps[i].begin, series.steps[i - 1].end);
  EXPECT_DOUBLE_EQ(series.samples_per_step, (16 + 100 + 4) / 3.0);
}

// Accelerate takes each batch a step ahead, and one step goes without at the end of an epoch.
TEST_F(StepsTest, BatchSizeIsThatOfNearlyAllSteps) {
  uint64_t t = 0;
  for (uint32_t i = 0; i < 80; ++i, t += 10) {
    if (i != 40) next(t, t + 5, i < 40 ? i : i - 41);
    optimizer(t + 8, t + 10);
  }
  EXPECT_DOUBLE_EQ(steps().samples_per_step, 16);
}

TEST_F(StepsTest, BatchSizeIsTheMeanWhereStepsDiffer) {
  uint64_t t = 0;
  for (uint32_t i = 0; i < 80; ++i, t += 10) {
    if (i % 4 != 0) next(t, t + 5, i);
    optimizer(t + 8, t + 10);
  }
  EXPECT_NEAR(steps().samples_per_step, 12, 0.3);
}

TEST_F(StepsTest, WithoutAnOptimizerTheLoaderTells) {
  for (uint64_t i = 0; i < 10; ++i) next(10 * i, 10 * i + 4, static_cast<uint32_t>(i));
  slots_.host(next_, 100 * kMs, 101 * kMs, 900, 10, trace::kFailed);
  const auto series = steps();
  EXPECT_EQ(series.source, "loader");
  ASSERT_EQ(series.steps.size(), 10u);
  EXPECT_EQ(series.steps[4].begin, static_cast<Ns>(40 * kMs));
  EXPECT_EQ(series.steps[9].end, static_cast<Ns>(100 * kMs));
  EXPECT_EQ(series.steps[9].batches, 1u);
  EXPECT_DOUBLE_EQ(series.samples_per_step, 16);
}

TEST_F(StepsTest, LaunchesTellTheStepsOfAProgramWithoutPython) {
  uint64_t t = 1000 * kMs;
  std::vector<uint64_t> ends;
  std::vector<uint64_t> places(100, 0x400100);  // a hundred equal kernels, launched one by one, ...
  places.push_back(0x400200);                   // ... and the optimizer's
  for (int i = 0; i < 30; ++i) ends.push_back(t = cuda_step(t, places));
  const auto series = steps();
  EXPECT_EQ(series.source, "launches");
  ASSERT_GE(series.steps.size(), 28u);
  for (const auto& step : series.steps) {
    EXPECT_TRUE(std::count(ends.begin(), ends.end(), static_cast<uint64_t>(step.end)))
        << "a step ends where the program's step ends, before it waits for data";
    EXPECT_NEAR(step.end - step.begin, static_cast<Ns>(ends[1] - ends[0]), 1);
  }
  for (size_t i = 1; i < series.steps.size(); ++i) EXPECT_EQ(series.steps[i].begin, series.steps[i - 1].end);
}

TEST_F(StepsTest, ALogLineEveryTenthStepDoesNotStretchTheSteps) {
  uint64_t t = 1000 * kMs;
  const uint64_t first = t;
  for (int i = 0; i < 60; ++i) {
    t = cuda_step(t, {1, 2, 3, 2, 1, 9});
    if (i % 10 == 9) {
      slots_.host(copy_, t, t + 1000, 0, 0, trace::CallDetail(4, 0x20, 7, 2, 0, 0));  // loss to the host
      slots_.host(sync_, t + 1000, t + 2000);
      t += 3000;
    }
  }
  const auto series = steps();
  ASSERT_GE(series.steps.size(), 58u);
  EXPECT_NEAR(static_cast<double>(series.span().length()) / static_cast<double>(series.steps.size()),
              static_cast<double>(t - first) / 60, 20000);
}

TEST_F(StepsTest, NothingToTrainIsNothing) {
  slots_.host(wait_, 1000, 2000);
  const auto series = steps();
  EXPECT_EQ(series.source, "");
  EXPECT_TRUE(series.steps.empty());
}

TEST(LaunchPeriod, IsTheUnitThatHoldsTheRarestKernel) {
  std::vector<uint32_t> tokens;
  for (int i = 0; i < 20; ++i) {
    tokens.insert(tokens.end(), {1, 1, 1, 1, 2, 3});
  }
  EXPECT_EQ(find_launch_period(tokens).length, 6u);
}

TEST(LaunchPeriod, TheRarestKernelMayOccurTwice) {
  std::vector<uint32_t> tokens;
  for (int i = 0; i < 20; ++i) tokens.insert(tokens.end(), {1, 1, 2, 1, 1, 1, 2});
  const auto period = find_launch_period(tokens);
  EXPECT_EQ(period.length, 7u);
  EXPECT_GE(period.ends.size(), 18u);
}

TEST(LaunchPeriod, AGraphCountsByWhatTheDeviceDoesForIt) {
  std::vector<uint32_t> tokens;
  std::vector<double> weights;
  for (int i = 0; i < 3; ++i)  // rounds before the capture, launched one by one
    for (uint32_t kernel = 10; kernel < 110; ++kernel) tokens.push_back(kernel), weights.push_back(1);
  for (int i = 0; i < 60; ++i) tokens.push_back(1), weights.push_back(100);
  EXPECT_EQ(find_launch_period(tokens).length, 0u) << "60 of 360";
  EXPECT_EQ(find_launch_period(tokens, weights).length, 1u);
}

TEST(LaunchPeriod, NoneInNoise) {
  std::vector<uint32_t> tokens;
  uint32_t state = 1;
  for (int i = 0; i < 2000; ++i) tokens.push_back((state = state * 1664525 + 1013904223) >> 28);
  EXPECT_EQ(find_launch_period(tokens).length, 0u);
}

TEST(LaunchPeriod, IsLinearInTime) {
  std::vector<uint32_t> tokens(2'000'000);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<uint32_t>(i % 1000);
  EXPECT_EQ(find_launch_period(tokens).length, 1000u);
}

}  // namespace
}  // namespace gpuwatch::model
