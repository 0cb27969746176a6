// SPDX-License-Identifier: Apache-2.0
// What the script writes: logs, files of a step, checkpoints.
#include <gtest/gtest.h>

#include "tests/unit/analyzer/advise/cpu_training.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;
using trace::OpClass;

TEST(LoggingStall, IsWritesInMostSteps) {
  CpuTraining training;
  training.call(OpClass::Write, 4 * kMs, 1, 100);
  const Diagnosis diagnosis = training.diagnose();
  expect_step(find(diagnosis, "logging-stall"), 10, 6.04);  // a hundredth stays
  EXPECT_EQ(setting_value(find(diagnosis, "logging-stall")->fix.change), "100");
  EXPECT_EQ(find(diagnosis, "checkpoint-stall"), nullptr);
}

// np.save of a large array: half of its pieces were too short for a record each.
TEST(LoggingStall, CountsThePiecesOfAnArray) {
  CpuTraining training;
  training.call(OpClass::Write, 2 * kMs, 1, 8'000'000);
  for (auto& step : training.job.rank().steps) step.times[size_t(Category::Checkpoint)] = 4 * kMs;
  const Diagnosis diagnosis = training.diagnose();
  const Finding* finding = find(diagnosis, "logging-stall");
  expect_step(finding, 10, 6.04);
  EXPECT_EQ(finding->title.substr(0, 13), "Writing files");
  EXPECT_EQ(finding->fix.summary.find("Log "), std::string::npos);
}

TEST(LoggingStall, RareWritesAreACheckpoint) {
  CpuTraining training;
  training.call(OpClass::Write, 8 * kMs, 10, 50'000'000);
  const Diagnosis diagnosis = training.diagnose();
  EXPECT_EQ(find(diagnosis, "logging-stall"), nullptr);
  expect_step(find(diagnosis, "checkpoint-stall"), 10, 9.2);
}

TEST(CheckpointStall, IsKnownByItsSizeWhereItIsNotRare) {
  CpuTraining models, lines;
  models.call(OpClass::Write, 8 * kMs, 4, 50'000'000);
  expect_step(find(models.diagnose(), "checkpoint-stall"), 10, 8);
  EXPECT_EQ(find(models.diagnose(), "logging-stall"), nullptr);
  lines.call(OpClass::Write, 8 * kMs, 4, 100);
  EXPECT_EQ(find(lines.diagnose(), "checkpoint-stall"), nullptr);
  EXPECT_NE(find(lines.diagnose(), "logging-stall"), nullptr);
}

// Every fifth step writes a model for 2 ms and takes 40 ms longer than the others: 19 of 99 steps, 760 of
// 1750 ms.
TEST(CheckpointStall, TakesWhatMakingItTakes) {
  CpuTraining training([](size_t batch) { return batch % 5 == 0 ? 49.0 : 9.0; });
  const auto is_long = [](const auto& each) { return each.step.end - each.step.begin > 40 * kMs; };
  const auto& steps = training.job.rank().steps;
  const auto first = size_t(std::ranges::find_if(steps, is_long) - steps.begin());
  training.call(OpClass::Write, 2 * kMs, 5, 50'000'000, first);
  const Diagnosis diagnosis = training.diagnose();
  const Finding* finding = find(diagnosis, "checkpoint-stall");
  ASSERT_NE(finding, nullptr);
  ASSERT_TRUE(finding->ceiling_speedup);
  EXPECT_NEAR(*finding->ceiling_speedup, 1750.0 / 990, 0.001);
  EXPECT_EQ(find(diagnosis, "long-steps"), nullptr);
}

TEST(LoggingStall, WhatACheckpointWritesIsTheCheckpoints) {
  CpuTraining training;
  training.call(OpClass::Checkpoint, 8 * kMs, 2);
  training.call(OpClass::Write, 5 * kMs, 2, 50'000'000);
  const Diagnosis diagnosis = training.diagnose();
  EXPECT_EQ(find(diagnosis, "logging-stall"), nullptr);
  expect_step(find(diagnosis, "checkpoint-stall"), 10, 6);
}

TEST(CheckpointStall, ProposesTheIntervalThatLosesLeast) {
  CpuTraining training;
  training.call(OpClass::Checkpoint, 8 * kMs, 10);
  const Diagnosis diagnosis = training.diagnose();
  const Finding* finding = find(diagnosis, "checkpoint-stall");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(setting_value(finding->fix.change), "every 37 s");  // sqrt(2 x 0.008 s x 86400 s)
}

TEST(CheckpointStall, IsSilentWhereSavingIsCheap) {
  CpuTraining training;
  training.call(OpClass::Checkpoint, 2 * kMs, 10);
  EXPECT_EQ(find(training.diagnose(), "checkpoint-stall"), nullptr);
}

}  // namespace
}  // namespace gpuwatch::advise
