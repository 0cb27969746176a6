// SPDX-License-Identifier: Apache-2.0
// Switches for debugging: what they slow, what they do not, and how one is seen that is not recorded.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "tests/unit/analyzer/advise/found.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;
using model::Ns;
using test::Action;
using trace::OpClass;

constexpr size_t kSteps = 100;
constexpr Ns kMs = 1'000'000;

// A synchronization at each launch is what the switch does: the switch comes first.
TEST(DebugLeftOn, ComesBeforeItsSymptoms) {
  const Action sync{.op_class = OpClass::Sync, .cost_us = 2, .waits = true};
  test::Job job =
      test::make_device_job({{.gap_us = 8000, .device_us = 3000}, {.device_us = 3000}, sync}, 100);
  test::set_shares(job, {{Category::HostCompute, 0.55}, {Category::Sync, 0.1}});
  const Diagnosis quiet = diagnose(job.run, job.ranks);
  ASSERT_NE(first_complaint(quiet.findings), nullptr);
  EXPECT_EQ(first_complaint(quiet.findings)->bottleneck, attribute::Bottleneck::Host);
  for (const auto& [fact, value] :
       {std::pair{"CUDA_LAUNCH_BLOCKING", "1"}, {"anomaly_mode", "on"}, {"profiler", "on"}}) {
    test::Job slowed = job;
    slowed.process().facts[fact] = value;
    const Diagnosis diagnosis = diagnose(slowed.run, slowed.ranks);
    EXPECT_EQ(first_complaint(diagnosis.findings)->id, "debug-left-on") << fact;
    EXPECT_GT(diagnosis.findings.size(), 1u);
    EXPECT_FALSE(diagnosis.together);
    for (const Finding& finding : diagnosis.findings)
      EXPECT_FALSE(finding.id == "host-work" && (finding.prediction || finding.ceiling_speedup)) << fact;
  }
}

// Who wants repeatable results and reads the loss in each step gains by not reading it.
TEST(DebugLeftOn, DeterministicAlgorithmsComeAfterTheScriptsOwnWaits) {
  const Action sync{.op_class = OpClass::Sync, .cost_us = 2, .waits = true};
  test::Job job = test::make_device_job({{.gap_us = 300, .device_us = 500}, sync}, kSteps);
  test::set_shares(job, {{Category::Sync, 0.37}});
  job.process().facts["deterministic_algorithms"] = "on";
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  EXPECT_EQ(first_complaint(diagnosis.findings)->id, "sync-per-step");
  EXPECT_NE(find(diagnosis, "debug-left-on"), nullptr);
}

// typing-profiler of tests/abroad: page faults came first, with a bound. A GPU's kernels take as long as
// before.
TEST(DebugLeftOn, SlowsTheModelsComputeWhereTheHostDoesIt) {
  const auto distorts_compute = [](test::Job job) {
    job.process().facts["profiler"] = "on";
    const Found found(job, "debug-left-on");
    return std::ranges::find(found->distorts, attribute::Bottleneck::Compute) != found->distorts.end();
  };
  EXPECT_TRUE(distorts_compute(test::make_loader_job({.workers = 4})));
  EXPECT_FALSE(distorts_compute(test::make_device_job({{.gap_us = 300, .device_us = 500}}, kSteps)));
}

TEST(DebugLeftOn, LeavesTheUnusedGpu) {
  test::Job job = test::make_loader_job({.workers = 4});
  job.process().facts["profiler"] = "on";
  job.process().facts["gpus"] = "1";
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  ASSERT_NE(find(diagnosis, "gpu-unused"), nullptr);
  EXPECT_EQ(find(diagnosis, "gpu-unused")->fix.summary.find("Record again"), std::string::npos);
}

// A loader that cannot keep up is no symptom of it.
TEST(DebugLeftOn, ComesAfterWhatItDoesNotCause) {
  test::Job job = test::make_loader_job({.workers = 1});
  job.process().facts["anomaly_mode"] = "on";
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  EXPECT_EQ(first_complaint(diagnosis.findings)->id, "dataloader-workers");
  EXPECT_NE(find(diagnosis, "debug-left-on"), nullptr);
}

TEST(DebugLeftOn, KnowsTheCeilingOfLaunchesThatBlock) {
  test::Job job = test::make_device_job({{.gap_us = 300, .device_us = 500, .waits = true}}, kSteps);
  test::set_shares(job, {{Category::Sync, 0.38}});
  job.rank().device_observed = true;
  job.process().facts["CUDA_LAUNCH_BLOCKING"] = "1";
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  const Finding* finding = find(diagnosis, "debug-left-on");
  ASSERT_NE(finding, nullptr);
  ASSERT_TRUE(finding->ceiling_speedup);
  EXPECT_NEAR(*finding->ceiling_speedup, 805.0 / 500, 0.02);
}

// `with torch.autograd.detect_anomaly():` around forward and backward: off when the optimizer's step is
// asked.
TEST(DebugLeftOn, SeesAnomalyModeByTheStacksThatItFormats) {
  const auto is_found = [](const std::string& stack, size_t samples) {
    test::Job job = test::make_device_job({{.gap_us = 20'000, .device_us = 100}}, 60);
    job.run.texts[1] = "/code/train.py:20 step";
    job.run.texts[2] = stack;
    const Ns begin = job.rank().steps.front().step.begin;
    for (size_t sample = 0; sample < 40; ++sample)
      job.process().threads[0].worker_stacks.push_back(
          {begin + Ns(sample) * 25 * kMs, 25 * kMs, sample < samples ? 2u : 1u, job.process().pid});
    const Found found(job, "debug-left-on");
    return found && setting_name(found->fix.change) == "anomaly_mode";
  };
  const std::string formats =
      "/lib/python3.11/traceback.py:390 StackSummary.extract\n/lib/python3.11/traceback.py:228 "
      "extract_stack\n"
      "/site-packages/torch/fx/traceback.py:503 format_stack\n/code/train.py:20 step";
  EXPECT_TRUE(is_found(formats, 6));
  EXPECT_FALSE(is_found(formats, 1));
  EXPECT_FALSE(is_found(formats + "\n/site-packages/torch/_dynamo/convert_frame.py:1 compile", 6));
}

}  // namespace
}  // namespace gpuwatch::advise
