// SPDX-License-Identifier: Apache-2.0
// When a larger batch is advised, by how much, and what comes before it.
#include <gtest/gtest.h>

#include "tests/unit/analyzer/advise/device_diagnosis.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;
using test::Action;
using trace::OpClass;

TEST(SmallBatch, DoublesWhileTheDeviceIsHalfEmpty) {
  std::vector<Action> step(4, Action{.device_us = 200, .blocks = 12});
  Diagnosis diagnosis = diagnose_device(step, {});
  const Finding* finding = find(diagnosis, "small-batch");
  ASSERT_NE(finding, nullptr);
  ASSERT_TRUE(finding->prediction);
  EXPECT_EQ(finding->prediction->metric, "samples_per_s");
  EXPECT_EQ(setting_value(finding->fix.change), "512");  // 192 blocks still fit on 200 places
  EXPECT_GT(finding->prediction->speedup.expected, 10);
  EXPECT_EQ(diagnosis.verdict.id, "compute-bound");
}

test::Job many_short_kernels() {
  const std::vector<Action> step(150, Action{.gap_us = 20, .device_us = 2, .blocks = 4});
  test::Job job = test::make_device_job(step, kSteps);
  test::set_shares(job, {{Category::LaunchDispatch, 0.8}, {Category::Compute, 0.1}});
  job.rank().series.samples_per_step = 0;
  return job;
}

// A job without a loader (ctr-small-batch of tests/abroad: 16 times the batch gained 6.6 times, a graph at
// most 3): how many samples a second is not known, how many times as many is, and counts in the order.
TEST(SmallBatch, ComesFirstWhereOnlyItsFactorIsKnown) {
  const test::Job job = many_short_kernels();
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  const Finding* finding = find(diagnosis, "small-batch");
  ASSERT_NE(finding, nullptr);
  EXPECT_FALSE(finding->prediction);
  ASSERT_TRUE(finding->too_wide);
  EXPECT_GT(finding->too_wide->speedup.low, 4);
  EXPECT_EQ(finding->fix.summary.substr(0, 18), "Use a larger batch");
  EXPECT_EQ(finding->id, diagnosis.findings.front().id);
}

TEST(SmallBatch, IsSilentOnAFullDevice) {
  Diagnosis diagnosis = diagnose_device(std::vector<Action>(4, Action{.device_us = 200, .blocks = 5000}), {});
  EXPECT_EQ(find(diagnosis, "small-batch"), nullptr);
  EXPECT_NE(find(diagnosis, "compute-bound"), nullptr);
  EXPECT_EQ(diagnosis.verdict.id, "healthy");
  for (const Finding& finding : diagnosis.findings)
    EXPECT_EQ(finding.severity, Severity::kInfo) << finding.id;
}

// A kernel with very many shapes keeps its name alone.
TEST(SmallBatch, LeavesOutKernelsOfUnknownShape) {
  const Action full{.device_us = 200, .blocks = 5000}, unknown{.device_us = 200, .blocks = 0};
  EXPECT_EQ(find(diagnose_device({full, unknown, unknown, unknown}, {}), "small-batch"), nullptr);
  EXPECT_EQ(find(diagnose_device({unknown, unknown}, {}), "small-batch"), nullptr);
  const Action small{.device_us = 200, .blocks = 12};
  EXPECT_NE(find(diagnose_device({small, small, small, unknown}, {}), "small-batch"), nullptr);
}

// Batches of one, gradients of eight (lora-batch-of-one of tests/abroad: one batch of eight is 2.3 times as
// fast): the grids fill most of a GPU, and are a wave each.
TEST(SmallBatch, IsWhereGradientsOfManyAreAccumulated) {
  test::Job job =
      test::make_device_job(std::vector<Action>(4, Action{.device_us = 200, .blocks = 70}), kSteps);
  job.rank().device_observed = true;
  test::set_shares(job, {{Category::Compute, 1}});
  job.rank().series.samples_per_step = 8;
  model::Loader& loader = test::add_loader(job);
  loader.batch_size = 8;
  EXPECT_EQ(find(diagnose(job.run, job.ranks), "small-batch"), nullptr) << "a batch a step";
  loader.batch_size = 1;
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  const Finding* finding = find(diagnosis, "small-batch");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(setting_value(finding->fix.change), "8") << "more would be another training";
  EXPECT_FALSE(finding->prediction) << "full SMs do not tell what more of the same costs";
  EXPECT_GE(finding->ceiling_speedup.value_or(0), 2.3);
  EXPECT_NE(finding->fix.summary.find("the same training"), std::string::npos) << finding->fix.summary;
}

// Eight batches of two and an optimizer step (5.2 times as fast in one batch): the host launches everything
// eight times, to kernels that fill the GPU.
TEST(SmallBatch, ComesFirstWhereTheHostLaunchesForEachOfThem) {
  const std::vector<Action> step(150, Action{.gap_us = 60, .device_us = 8, .blocks = 150});
  test::Job job = test::make_device_job(step, kSteps);
  job.rank().device_observed = true;
  test::set_shares(job, {{Category::LaunchDispatch, 0.8}, {Category::Compute, 0.12}});
  job.rank().series.samples_per_step = 16;
  model::Loader& loader = test::add_loader(job);
  loader.batch_size = 2;
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  const Finding* finding = find(diagnosis, "small-batch");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->id, diagnosis.findings.front().id) << diagnosis.findings.front().id;
  EXPECT_GE(finding->ceiling_speedup.value_or(0), 5.2);
  EXPECT_NE(finding->title.find("the host launches"), std::string::npos) << finding->title;
}

// Kernels that fill the GPU take longer for more samples, the launches that it waits for do not (8 times the
// batch of a contrastive network: 4.4 to 5.2 times the samples a second). Where it computes, nothing is
// gained.
TEST(SmallBatch, IsAnOptionWhereTheDeviceWaitsForLaunches) {
  const auto job_with = [](double device_us, double launching) {
    const std::vector<Action> step(150, Action{.gap_us = 20, .device_us = device_us, .blocks = 300});
    test::Job job = test::make_device_job(step, kSteps);
    test::set_shares(job, {{Category::LaunchDispatch, launching}, {Category::Compute, 0.9 - launching}});
    job.rank().series.samples_per_step = 0;
    return job;
  };
  const test::Job waits = job_with(2, 0.8), computes = job_with(18, 0.2);
  const Diagnosis diagnosis = diagnose(waits.run, waits.ranks);
  const Finding* finding = find(diagnosis, "small-batch");
  ASSERT_NE(finding, nullptr);
  EXPECT_TRUE(finding->may_have_to_stay) << "another training";
  EXPECT_GE(finding->ceiling_speedup.value_or(0), 5.2);
  EXPECT_EQ(find(diagnose(computes.run, computes.ranks), "small-batch"), nullptr);
}

TEST(SmallBatch, CountsTheOptimizerAsTheSameForAnyBatch) {
  const Action kernel{.device_us = 200, .blocks = 5000},
      optimizer{.op_class = OpClass::OptimizerStep, .cost_us = 0};
  test::Job job = test::make_device_job({kernel, optimizer, kernel, kernel, kernel}, kSteps);
  job.rank().series.samples_per_step = 32;
  auto step = job.rank().steps.begin();
  for (model::HostCall& call : job.process().threads[0].calls)
    if (call.op_class == OpClass::OptimizerStep) call.end = (step++)->step.end;
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  const Finding* finding = find(diagnosis, "small-batch");
  ASSERT_TRUE(finding && finding->prediction);
  EXPECT_NEAR(finding->prediction->speedup.expected, 16 * 4.0 / (3 + 16), 0.1);  // one of four kernels grows
}

}  // namespace
}  // namespace gpuwatch::advise
