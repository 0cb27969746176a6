// SPDX-License-Identifier: Apache-2.0
// How quick the steps of a run can be.
#include "analyzer/advise/quick_steps.h"

#include <gtest/gtest.h>

#include "analyzer/advise/ceiling.h"
#include "tests/unit/analyzer/synthetic_run.h"

namespace gpuwatch::advise {
namespace {

using attribute::Group;

// Of each step the time that it waits for data, and the time that it computes.
attribute::RankAttribution steps_of(size_t count, double (*wait_ms)(size_t), double (*compute_ms)(size_t)) {
  attribute::RankAttribution rank;
  for (size_t i = 0; i < count; ++i) {
    attribute::StepAttribution step;
    step.times[size_t(attribute::Category::InputWakeup)] = model::Ns(wait_ms(i) * 1e6);
    step.times[size_t(attribute::Category::Compute)] = model::Ns(compute_ms(i) * 1e6);
    rank.steps.push_back(step);
  }
  return rank;
}

double ten(size_t) {
  return 10;
}
double ten_to_thirty(size_t i) {
  return 10 + 20 * double(i % 100) / 100;
}

TEST(QuickSteps, AreNotKnownOfAShortRun) {
  EXPECT_EQ(quick_part({}, steps_of(0, ten, ten)), 1);
  EXPECT_EQ(quick_part({}, steps_of(19, ten, ten_to_thirty)), 1);
  EXPECT_LT(quick_part({}, steps_of(20, ten, ten_to_thirty)), 1);
}

TEST(QuickSteps, AreStepsWhereAllAreEqual) {
  EXPECT_EQ(quick_part({}, steps_of(100, ten, ten)), 1);
}

TEST(QuickSteps, AreTheHundredthOfThem) {
  EXPECT_NEAR(quick_part({}, steps_of(100, ten, ten_to_thirty), Group::Input), 10.2 / 19.9, 0.001);
  EXPECT_NEAR(quick_part({}, steps_of(100, ten, ten_to_thirty)), 20.2 / 29.9, 0.001);
}

// Waits that differ say nothing of the rest.
TEST(QuickSteps, LeaveOutWhatIsRemoved) {
  EXPECT_EQ(quick_part({}, steps_of(100, ten_to_thirty, ten), Group::Input), 1);
}

// A core that the fetch had, or another program: training that has it may take no longer than it computes.
TEST(QuickSteps, WaitForNoCoreWithoutWhatIsRemoved) {
  for (const size_t count : {10, 100}) {
    attribute::RankAttribution rank = steps_of(count, ten, ten);
    for (attribute::StepAttribution& step : rank.steps)
      step.times[size_t(attribute::Category::Sched)] = 5'000'000;
    EXPECT_NEAR(quick_part({}, rank, Group::Input), 10.0 / 15, 0.001) << count;
    EXPECT_EQ(quick_part({}, rank), 1) << count;
  }
}

// Each step took one batch, of as many bytes as given.
model::Process with_batches(attribute::RankAttribution& rank, double (*bytes)(size_t)) {
  model::Process process;
  process.epochs.emplace_back();
  for (size_t i = 0; i < rank.steps.size(); ++i) {
    rank.steps[i].step = {.begin = model::Ns(i) * 1000 + 1000, .end = model::Ns(i) * 1000 + 2000};
    model::Batch batch{.index = uint32_t(i)};
    batch.bytes = uint64_t(bytes(i));
    batch.next = {rank.steps[i].step.begin - 100, rank.steps[i].step.begin};
    process.epochs.front().batches.push_back(batch);
  }
  return process;
}

// Batches of 1 to 2.99 kB; a step takes 10 ms a kB, of ten one takes a tenth less.
double lengths(size_t i) {
  return 1000 + 10 * double(i * 37 % 200);
}
double by_length(size_t i) {
  return lengths(i) / 100 * (i % 10 == 0 ? 0.9 : 1);
}
double known_of_some(size_t i) {
  return i % 4 ? 0 : lengths(i);
}
double long_and_short(size_t i) {
  return i % 2 ? 1000 : 3000;
}

TEST(QuickSteps, AreQuickForTheirBatch) {
  attribute::RankAttribution rank = steps_of(400, ten, by_length);
  EXPECT_NEAR(quick_part({}, rank, Group::Input), 10.1 / (0.99 * 20), 0.02);
  EXPECT_NEAR(quick_part(with_batches(rank, lengths), rank, Group::Input), 0.9, 0.03);
  EXPECT_NEAR(quick_part(with_batches(rank, known_of_some), rank, Group::Input), 0.9, 0.03);
  // A step waits 10 ms, whatever its batch: the longest have the largest part that differs.
  EXPECT_NEAR(quick_part(with_batches(rank, lengths), rank), (10 + 0.9 * 30) / (10 + 30), 0.03);
}

// What differs for another reason is no matter of the batch.
TEST(QuickSteps, AreTheQuickestWhereTheBatchSaysNothing) {
  attribute::RankAttribution rank = steps_of(500, ten, ten_to_thirty);
  const model::Process unrelated = with_batches(rank, long_and_short);
  EXPECT_EQ(quick_part(unrelated, rank, Group::Input), quick_part({}, rank, Group::Input));
  const model::Process unknown = with_batches(rank, [](size_t) { return 0.0; });
  EXPECT_EQ(quick_part(unknown, rank, Group::Input), quick_part({}, rank, Group::Input));
}

// Of 100 ms 60 wait for data: nothing is left to gain once workers have ended that, and more than before once
// 30 ms of other work are gone.
TEST(CeilingWithoutInput, IsOfTheStepThatOtherChangesLeave) {
  const test::Job job = test::make_loader_job({});
  RuleInput input{.run = job.run, .rank = job.ranks.front(), .process = job.run.processes.front()};
  const double recorded_ms = input.rank.mean_step_ms();
  input.now_ms = recorded_ms;
  EXPECT_NEAR(ceiling_without_input(input, 0.6), 2.5, 0.01);
  input.now_ms = 0.7 * recorded_ms;
  EXPECT_NEAR(ceiling_without_input(input, 0.6), 7, 0.05);
  input.now_ms = 0.4 * recorded_ms;
  input.input_factor = 0;
  EXPECT_NEAR(ceiling_without_input(input, 0.6), 1, 0.01);
}

}  // namespace
}  // namespace gpuwatch::advise
