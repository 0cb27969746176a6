// SPDX-License-Identifier: Apache-2.0
#include "analyzer/compare/comparison.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "analyzer/advise/diagnose.h"
#include "analyzer/compare/threshold.h"
#include "analyzer/io/user_error.h"
#include "tests/unit/analyzer/synthetic_run.h"

namespace gpuwatch::compare {
namespace {

struct Made {
  test::Job job;
  advise::Diagnosis diagnosis = advise::diagnose(job.run, job.ranks);
  report::Report report{job.run, job.ranks, diagnosis, "0.1.0"};
};

Made with_workers(int workers, size_t batches = 200) {
  test::LoaderJob wanted;
  wanted.workers = workers;
  wanted.batches = batches;
  return {test::make_loader_job(wanted)};
}

// Of each ten steps the first `slow` take twice as long as the others.
Made uneven(size_t slow_blocks, double step_ms) {
  Made made = with_workers(3);
  std::vector<model::TimeSpan> steps;
  model::Ns at = 1;
  for (size_t i = 0; i < 200; ++i) {
    const auto length = model::Ns(1e6 * step_ms * (i / 20 < slow_blocks ? 2 : 1));
    steps.push_back({at, at + length});
    at += length;
  }
  test::set_steps(made.job, steps);
  return made;
}

TEST(Comparison, FindsTheChangeItsGainAndThatItWasPredicted) {
  const Made before = with_workers(1), after = with_workers(3);
  const Comparison result = compare(before.report, after.report);
  EXPECT_TRUE(result.is_faster());
  EXPECT_EQ(result.changed, std::vector<std::string>{"num_workers 1 to 3"});
  ASSERT_EQ(result.gone.size(), 1u);
  EXPECT_EQ(result.gone.front()->id, "dataloader-workers");
  EXPECT_TRUE(result.differs.empty());
  ASSERT_TRUE(result.promise && result.promise->speedup);
  EXPECT_EQ(is_kept(result), true);
  // The schedule's own clock: 10 ms a batch by one worker, 4 ms of training.
  ASSERT_TRUE(result.speedup);
  EXPECT_NEAR(result.speedup->expected, 10.0 / 4, 0.1);
}

TEST(Comparison, SaysThatAPredictionWasNotKept) {
  const Made before = with_workers(1);
  test::LoaderJob slow;
  slow.workers = 3;
  slow.think_ms = [](size_t) { return 8.0; };
  const Made after{test::make_loader_job(slow)};
  const Comparison result = compare(before.report, after.report);
  EXPECT_TRUE(result.is_faster());
  EXPECT_EQ(is_kept(result), false);
  EXPECT_NE(text(result, {.width = 200}).find(": not as predicted"), std::string::npos);
}

TEST(Comparison, DoesNotComparePredictionsWithOtherChanges) {
  const Made before = with_workers(1), after = with_workers(2);
  const Comparison result = compare(before.report, after.report);
  EXPECT_FALSE(result.promise);
  EXPECT_EQ(is_kept(result), std::nullopt);
}

// What else is gone with the workers' setting may have been a symptom.
TEST(Comparison, CountsASettingInForceAlone) {
  Made before = with_workers(1);
  const Made after = with_workers(3);
  advise::Finding symptom;
  symptom.id = "input-decode";
  symptom.ceiling_speedup = 5;
  before.diagnosis.findings.push_back(symptom);
  const Comparison result = compare(before.report, after.report);
  EXPECT_EQ(result.gone.size(), 2u);
  ASSERT_TRUE(result.promise);
  EXPECT_EQ(result.promise->changes.size(), 1u);
  EXPECT_EQ(is_kept(result), true);
}

// Predicted for steps of the same batch.
TEST(Comparison, DoesNotCompareAPredictionWithAnotherBatch) {
  Made before = with_workers(1), after = with_workers(3);
  before.job.rank().series.samples_per_step = 32;
  after.job.rank().series.samples_per_step = 64;
  const Comparison result = compare(before.report, after.report);
  ASSERT_TRUE(result.promise);
  EXPECT_EQ(is_kept(result), std::nullopt);
}

// The demo's own: predicted 1.70 times (1.46 to 1.86), measured 1.43 (1.28 to 1.61).
TEST(Comparison, SaysWhatTheRunsLeaveOpen) {
  Comparison result;
  result.promise = Promise{.speedup = predict::Estimate{1.46, 1.70, 1.86}};
  result.speedup = predict::Estimate{1.28, 1.43, 1.61};
  EXPECT_EQ(is_kept(result), false);
  EXPECT_TRUE(is_left_open(result));
  result.speedup = predict::Estimate{1.28, 1.35, 1.42};
  EXPECT_FALSE(is_left_open(result));
  result.speedup = predict::Estimate{1.4, 1.5, 1.6};
  EXPECT_EQ(is_kept(result), true);
  EXPECT_FALSE(is_left_open(result));
}

TEST(Comparison, CallsNoDifferenceWhatTwoRunsMayDifferBy) {
  const Made first = uneven(0, 100), second = uneven(0, 98);
  const Comparison near = compare(first.report, second.report);
  EXPECT_FALSE(near.is_faster() || near.is_slower());
  EXPECT_TRUE(text(near, {}).starts_with("NO DIFFERENCE: 100 -> 98.0 ms a step, 1.02x")) << text(near, {});
  const Made third = uneven(0, 90);
  EXPECT_TRUE(compare(first.report, third.report).is_faster());
  EXPECT_TRUE(compare(third.report, first.report).is_slower());
}

// Half of the blocks twice as long: what the mean would be of another run is open.
TEST(Comparison, WidensByTheSpreadOfTheSteps) {
  const Made steady = uneven(0, 100), spread = uneven(5, 90);
  const Comparison result = compare(steady.report, spread.report);
  ASSERT_TRUE(result.speedup);
  // Means of blocks 90 and 180 ms: a standard error of 15 ms of 135, 1.645 of them each way.
  EXPECT_NEAR(result.speedup->high / result.speedup->expected, std::exp(std::hypot(1.645 * 15.0 / 135, 0.03)),
              0.01);
}

TEST(Comparison, CannotTellFromAFewSteps) {
  const Made before = with_workers(1, 8), after = with_workers(3, 8);
  const Comparison result = compare(before.report, after.report);
  EXPECT_FALSE(result.speedup);
  EXPECT_FALSE(result.is_faster() || result.is_slower());
  EXPECT_TRUE(text(result, {}).starts_with("CANNOT TELL: "));
}

TEST(Comparison, ComparesSamplesWhereBatchesDiffer) {
  Made before = uneven(0, 100), after = uneven(0, 150);
  before.job.rank().series.samples_per_step = 32;
  after.job.rank().series.samples_per_step = 64;
  const Comparison result = compare(before.report, after.report);
  ASSERT_TRUE(result.is_by_samples && result.speedup);
  EXPECT_NEAR(result.speedup->expected, 64.0 / 32 * 100 / 150, 1e-9);
  EXPECT_NE(text(result, {}).find("320 -> 426.7 samples/s (batch 32 -> 64"), std::string::npos)
      << text(result, {});
}

TEST(Comparison, NamesWhatElseIsNotEqual) {
  const Made before = with_workers(1);
  Made after = with_workers(3);
  after.job.process().host = "other";
  after.job.process().cpu_count = 64;
  const Comparison result = compare(before.report, after.report);
  EXPECT_EQ(result.differs.size(), 2u);
  EXPECT_NE(text(result, {}).find("CPUs 8, then 64"), std::string::npos);
  EXPECT_FALSE(result.promise) << "predicted for another machine";
}

TEST(Comparison, IsTheSameInJson) {
  const Made before = with_workers(1), after = with_workers(3);
  const auto report = json(compare(before.report, after.report));
  EXPECT_EQ(report["schema"], "gpuwatch.diff.v1");
  EXPECT_EQ(report["predicted"]["inside"], true);
  EXPECT_EQ(report["gone"][0]["id"], "dataloader-workers");
  EXPECT_LE(report["speedup"]["low"], report["speedup"]["expected"]);
}

TEST(Threshold, FailsOnAShareThatGrew) {
  const Made fast = with_workers(3), slow = with_workers(1);
  const Comparison worse = compare(fast.report, slow.report), better = compare(slow.report, fast.report);
  EXPECT_TRUE(exceeded(parse_threshold("data-loading=3"), worse));
  EXPECT_FALSE(exceeded(parse_threshold("data-loading=99"), worse));
  EXPECT_FALSE(exceeded(parse_threshold("data-loading=3"), better));
  EXPECT_TRUE(exceeded(parse_threshold("step=5%"), worse));
  EXPECT_FALSE(exceeded(parse_threshold("step=5"), better));
}

// A job that died after a few steps is no job that became no slower.
TEST(Threshold, FailsOnWhatCannotBeCompared) {
  const Made before = with_workers(1), after = with_workers(3, 8);
  const Comparison result = compare(before.report, after.report);
  EXPECT_TRUE(exceeded(parse_threshold("step=5"), result));
  EXPECT_TRUE(exceeded(parse_threshold("data-loading=99"), result));
}

TEST(Threshold, RefusesWhatItCannotRead) {
  for (const char* text : {"", "step", "step=", "step=five", "step=-1", "step=nan", "data=3", "step=5x"})
    EXPECT_THROW(parse_threshold(text), io::UserError) << text;
}

}  // namespace
}  // namespace gpuwatch::compare
