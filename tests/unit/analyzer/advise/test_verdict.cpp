// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "analyzer/advise/diagnose.h"
#include "tests/unit/analyzer/synthetic_run.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;

std::string verdict_with(std::initializer_list<std::pair<Category, double>> shares, size_t steps = 100) {
  test::Job job = test::make_device_job({{.device_us = 500}}, steps);
  test::set_shares(job, shares);
  return verdict(job.run, job.ranks, {}).id;
}

TEST(Verdict, NamesTheLargestLoss) {
  EXPECT_EQ(verdict_with({{Category::InputIo, 0.3}, {Category::Sync, 0.2}}), "input-bound");
  EXPECT_EQ(verdict_with({{Category::InputIo, 0.2}, {Category::Sync, 0.3}}), "host-bound");
  EXPECT_EQ(verdict_with({{Category::CopyH2D, 0.2}, {Category::CopyStaging, 0.2}, {Category::Sync, 0.3}}),
            "copy-bound");
  EXPECT_EQ(verdict_with({{Category::CommUnsplit, 0.2}}), "comm-bound");
}

TEST(Verdict, IsHealthyBelowFivePercent) {
  EXPECT_EQ(verdict_with({{Category::InputIo, 0.04}, {Category::Sync, 0.04}}), "healthy");
}

TEST(Verdict, DoesNotJudgeWhatItCouldNotSee) {
  EXPECT_EQ(verdict_with({{Category::DeviceUnobserved, 0.9}}), "cannot-tell");
  EXPECT_EQ(verdict_with({{Category::Unknown, 0.9}}), "cannot-tell");
  EXPECT_EQ(verdict_with({{Category::DeviceUnobserved, 0.6}, {Category::InputIo, 0.4}}), "input-bound");
}

TEST(Verdict, WaitsForFiveSteps) {
  EXPECT_EQ(verdict_with({{Category::InputIo, 0.5}}, 4), "too-short");
  EXPECT_EQ(verdict({}, {}, {}).id, "no-training");
}

TEST(Verdict, CountsTheCeilingFromTheLoss) {
  test::Job job = test::make_device_job({{.device_us = 500}}, 100);
  test::set_shares(job, {{Category::InputIo, 0.5}});
  EXPECT_NEAR(verdict(job.run, job.ranks, {}).ceiling_speedup, 2, 1e-3);
}

bool says(const std::vector<Limit>& limits, const char* words) {
  return std::ranges::any_of(
      limits, [&](const Limit& limit) { return limit.sentence.find(words) != limit.sentence.npos; });
}

TEST(Limits, SayWhatWasNotSeen) {
  test::Job job = test::make_device_job({{.device_us = 500}}, 100);
  job.process().sources["cupti"] = {trace::SourceState::Held, "held by Nsight", "Nsight"};
  job.process().dropped_records["file size limit"] = 7;
  const std::vector<Limit> sentences = limits(job.run, job.ranks);
  EXPECT_TRUE(says(sentences, "held by Nsight"));
  EXPECT_TRUE(says(sentences, "7 records were dropped"));
  EXPECT_FALSE(says(sentences, "cuda: on"));
}

TEST(Limits, SayWhereTheScriptWasAheadOfItsDevice) {
  test::Job job = test::make_device_job({{.cost_us = 5, .device_us = 500}}, 100);
  const char* words = "before the GPU had finished them";
  EXPECT_FALSE(says(diagnose(job.run, job.ranks).limits, words));
  attribute::StepAttribution& last = job.rank().steps.back();
  last.step.end = last.step.begin + 5000;
  test::set_shares(job, {});
  EXPECT_TRUE(says(diagnose(job.run, job.ranks).limits, words));
}

}  // namespace
}  // namespace gpuwatch::advise
