// SPDX-License-Identifier: Apache-2.0
// Launches that a compiler of the model leaves as they are: an optimizer's and those of the script's loops.
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/analyzer/advise/backward_thread.h"
#include "tests/unit/analyzer/advise/found.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;
using test::Action;
using trace::OpClass;

constexpr size_t kSteps = 100, kModel = 40, kLoop = 200;
const Action kLaunch{.gap_us = 8, .cost_us = 4, .device_us = 1.5};
const Action kRead{.op_class = OpClass::Copy,
                   .gap_us = 2,
                   .device_us = 2,
                   .waits = true,
                   .kind = trace::RecordKind::CopyD2H,
                   .bytes = 4,
                   .caller = 0x2000};
const char* const kInModel =
    "/site-packages/torch/nn/modules/linear.py:134 Linear.forward\n"
    "/site-packages/torch/nn/modules/module.py:1775 Module._call_impl\n/code/train.py:30 main";
const char* const kInLoop = "/code/train.py:12 update_ema\n/code/train.py:33 main";
const char* const kInOptimizer =
    "/site-packages/torch/optim/adamw.py:400 _single_tensor_adam\n"
    "/site-packages/torch/optim/optimizer.py:150 Optimizer.wrapper\n/code/train.py:32 main";

struct Part {
  size_t launches;
  const char* stack;
  bool is_optimizer = false;
  bool reads = false;  // a value from the GPU, after every tenth launch
  double own_us = 0;   // the script's work before every tenth launch
};

// One sample a step, of another launch each time.
test::Job job_of(const std::vector<Part>& parts, size_t steps = kSteps) {
  std::vector<Action> step;
  std::vector<const char*> stacks;
  for (const Part& part : parts) {
    if (part.is_optimizer) step.push_back({.op_class = OpClass::OptimizerStep, .cost_us = 0});
    for (size_t i = 1; i <= part.launches; ++i) {
      step.push_back(kLaunch);
      if (i % 10 == 0) step.back().gap_us += part.own_us;
      if (part.reads && i % 10 == 0) step.push_back(kRead);
    }
    stacks.resize(step.size(), part.stack);
  }
  test::Job job = test::make_device_job(step, steps);
  test::set_shares(job, {{Category::LaunchDispatch, 0.6}, {Category::LaunchApi, 0.3}});
  std::vector<model::HostCall>& calls = job.process().threads[0].calls;
  size_t after = 0;  // end of the step's launches that follow an optimizer's
  for (size_t at = 0, i = 0; i < calls.size(); i += step.size(), at += 37) {
    for (size_t k = 0; k < step.size(); ++k) {
      if (step[k].op_class != OpClass::OptimizerStep) continue;
      for (after = k + 1; after < step.size() && stacks[after] == stacks[k]; ++after) {
      }
      calls[i + k].end = calls[i + after - 1].end;
    }
    const char* const stack = stacks[at % step.size()];
    const uint32_t text = stack == kInModel ? 1 : stack == kInLoop ? 2 : 3;
    job.run.texts[text] = stack;
    job.process().threads[0].worker_stacks.push_back(
        {calls[i + at % step.size()].begin - 1000, 1'000'000, text, job.process().pid});
  }
  return job;
}

// Merged, the loop's first launch remains, and a thirtieth of the others.
void expect_achieved(const Finding& finding, size_t others) {
  ASSERT_TRUE(finding.prediction);
  std::vector<Action> fixed(others + 1 + kLoop / 30, kLaunch);
  for (const double kernels_us : {kLaunch.device_us, kLaunch.device_us * 30}) {  // of a merged launch
    for (size_t i = 0; i < kLoop / 30; ++i) fixed[others + i].device_us = kernels_us;
    const double really = test::device_step_us(fixed, kSteps) / 1e3;
    EXPECT_LE(finding.prediction->value.low, really * 1.001);
    EXPECT_GE(finding.prediction->value.high, really * 0.999);
  }
}

TEST(LaunchSources, NamesTheLoopOverParameters) {
  const Found found(job_of({{kLoop, kInLoop}, {kModel, kInModel}}), "launch-bound");
  ASSERT_TRUE(found);
  EXPECT_EQ(setting_name(found->fix.change), "operations");
  EXPECT_EQ(found->fix.location, "/code/train.py:12");
  EXPECT_NE(found->fix.summary.find("update_ema()"), std::string::npos);
  expect_achieved(*found, kModel);
}

TEST(LaunchSources, NamesTheOptimizer) {
  const Found found(job_of({{kModel, kInModel}, {kLoop, kInOptimizer, true}}), "launch-bound");
  ASSERT_TRUE(found);
  EXPECT_EQ(setting_name(found->fix.change), "optimizer");
  EXPECT_EQ(setting_value(found->fix.change), "fused=True");
  EXPECT_EQ(found->fix.location, "/code/train.py:32");
  expect_achieved(*found, kModel);
}

// An optimizer of the script has no option.
TEST(LaunchSources, NamesTheFunctionOfAnOptimizerOfTheScript) {
  const char* const own =
      "/code/lamb.py:50 Lamb.step\n/site-packages/torch/optim/optimizer.py:150 "
      "Optimizer.wrapper\n/code/train.py:32 main";
  const Found found(job_of({{kModel, kInModel}, {kLoop, own, true}}), "launch-bound");
  ASSERT_TRUE(found);
  EXPECT_EQ(setting_value(found->fix.change), "foreach");
  EXPECT_NE(found->fix.summary.find("Lamb.step"), std::string::npos);
}

// How much of the backward pass goes with a loss is not known.
TEST(LaunchSources, GivesABoundForALoopThatMakesTheLoss) {
  const Found found(job_of({{kModel, kInModel}, {kLoop, kInLoop}}), "launch-bound");
  ASSERT_TRUE(found);
  EXPECT_EQ(setting_name(found->fix.change), "operations");
  EXPECT_FALSE(found->prediction);
  ASSERT_TRUE(found->ceiling_speedup);
  EXPECT_GT(*found->ceiling_speedup, 3);
}

// Slices of a tensor launch more in the backward pass than two kernels each (runoff-member-pairs of
// tests/abroad: bounded by 2.1 times, gained 2.3).
TEST(LaunchSources, BoundsALossWithAllThatTheModelLeavesOfTheBackwardPass) {
  constexpr size_t kBackward = 5 * kLoop / 2;
  const char* const in_backward =
      "/site-packages/torch/autograd/graph.py:9 _engine_run_backward\n/code/train.py:34 main";
  test::Job job = job_of({{kModel, kInModel}, {kLoop, kInLoop}, {kBackward, in_backward}});
  std::vector<bool> is_backward(kModel + kLoop, false);
  is_backward.resize(kModel + kLoop + kBackward, true);
  test::move_to_backward_thread(job, is_backward);
  const Found found(job, "launch-bound");
  ASSERT_TRUE(found);
  EXPECT_EQ(setting_name(found->fix.change), "operations");
  ASSERT_TRUE(found->ceiling_speedup);
  EXPECT_GT(*found->ceiling_speedup, 4) << "3.8 with two launches of the backward pass for each of its own";
}

// wheat-hard-negatives of tests/abroad: int(positive.sum()) for each image, and all of it at once 4.4 times
// as fast.
TEST(LaunchSources, NamesTheWaitsOfTheLoop) {
  const auto summary_of = [](bool reads) {
    const Found found(job_of({{kLoop, kInLoop, false, reads}, {kModel, kInModel}}), "launch-bound");
    EXPECT_TRUE(found && setting_name(found->fix.change) == "operations");
    return found ? found->fix.summary : "";
  };
  EXPECT_NE(summary_of(true).find("; its waits for the GPU go with it"), std::string::npos);
  EXPECT_EQ(summary_of(false).find("waits"), std::string::npos);
}

// Written for all samples at once, its Python goes, too.
TEST(LaunchSources, BoundsALoopWithTheWorkInIt) {
  const Part loop{.launches = kLoop, .stack = kInLoop, .own_us = 150};
  constexpr size_t kFew = predict::kLeastReplaySteps - 1;  // with predictions, `host-work` has it first
  const Found found(job_of({{kModel, kInModel}, loop}, kFew), "launch-bound");
  ASSERT_TRUE(found);
  EXPECT_EQ(setting_name(found->fix.change), "operations");
  const double loop_us = kLoop * 12 + kLoop / 10.0 * loop.own_us, model_us = kModel * 12;
  EXPECT_GT(found->ceiling_speedup.value_or(0), 0.4 * (loop_us + model_us) / model_us);
}

TEST(LaunchSources, LeavesTheModelToTheCompiler) {
  const Found found(job_of({{20, kInLoop}, {kLoop, kInModel}}), "launch-bound");
  ASSERT_TRUE(found);
  EXPECT_EQ(setting_name(found->fix.change), "torch.compile");
}

}  // namespace
}  // namespace gpuwatch::advise
