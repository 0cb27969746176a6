// SPDX-License-Identifier: Apache-2.0
// A CUDA graph cannot hold a wait for the GPU, whatever it costs: where most steps have one between their
// launches, a graph has an upper bound only, and the waits go first.
#include <gtest/gtest.h>

#include "analyzer/io/printable.h"
#include "tests/unit/analyzer/advise/found.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;
using test::Action;
using trace::OpClass;
using trace::RecordKind;

constexpr size_t kSteps = 100;
const Action kLaunch{.gap_us = 8, .cost_us = 4, .device_us = 3};
const Action kItem{.op_class = OpClass::Copy,
                   .gap_us = 2,
                   .device_us = 2,
                   .waits = true,
                   .kind = RecordKind::CopyD2H,
                   .bytes = 4,
                   .caller = 0x2000};
const Action kSync{.op_class = OpClass::Sync, .cost_us = 2, .waits = true, .caller = 0x1000};
constexpr const char* kInModel =
    "/code/gate.py:26 Gate.forward\n/site-packages/torch/nn/modules/module.py:1775 Module._call_impl\n"
    "/code/train.py:30 main";
constexpr const char* kInLoop = "/code/train.py:40 main";
constexpr const char* kAfter = ", after the waits ";

std::vector<Action> operator*(size_t times, const std::vector<Action>& part) {
  std::vector<Action> all;
  for (size_t i = 0; i < times; ++i) all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::vector<Action> operator+(std::vector<Action> first, const std::vector<Action>& then) {
  first.insert(first.end(), then.begin(), then.end());
  return first;
}

const std::vector<Action> kPart(200, kLaunch);

// `stack`: of each copy to the host.
test::Job job_of(const std::vector<Action>& step, const char* stack = nullptr, size_t steps = kSteps) {
  test::Job job = test::make_device_job(step, steps);
  test::set_shares(job,
                   {{Category::Sync, 0.08}, {Category::LaunchDispatch, 0.55}, {Category::LaunchApi, 0.25}});
  if (!stack) return job;
  job.run.texts[1] = stack;
  model::Thread& thread = job.process().threads[0];
  for (const model::HostCall& call : thread.calls)
    if (call.op_class == OpClass::Copy) thread.stacks.push_back({call.begin, 1});
  return job;
}

bool says(const Finding& finding, const std::string& words) {
  return finding.fix.summary.find(words) != std::string::npos;
}

void expect_graph(const test::Job& job, const char* setting) {
  const Found found(job, "launch-bound");
  ASSERT_TRUE(found);
  EXPECT_EQ(setting_name(found->fix.change), setting);
  EXPECT_TRUE(found->prediction || found->too_wide);
  EXPECT_FALSE(says(*found, kAfter)) << found->fix.summary;
}

void expect_bound(const test::Job& job, const char* setting, const std::string& place = "") {
  const Found found(job, "launch-bound");
  ASSERT_TRUE(found);
  EXPECT_EQ(setting_name(found->fix.change), setting);
  EXPECT_FALSE(found->prediction || found->too_wide);
  EXPECT_GT(found->ceiling_speedup.value_or(0), 1.3);
  EXPECT_TRUE(says(*found, kAfter + place)) << found->fix.summary;
  EXPECT_TRUE(says(*found, " gone: a graph cannot hold them")) << found->fix.summary;
  EXPECT_FALSE(says(*found, "up to")) << "one bound in a line: " << found->fix.summary;
  EXPECT_LE(found->fix.summary.size(), io::kPrintableBytes) << "the report cuts longer ones";
}

// The GPU idles at each launch: the wait costs nothing. A capture fails there all the same.
TEST(GraphWaits, ThatCostNothingLeaveABound) {
  expect_graph(job_of(2 * kPart), "torch.compile");
  expect_bound(job_of(kPart + std::vector{kItem} + kPart, kInModel), "torch.compile", "at gate.py:26 are");
  expect_bound(job_of(kPart + std::vector{kSync} + kPart), "torch.compile");
}

TEST(GraphWaits, AtTheEndsOfAStepStayOutside) {
  expect_graph(job_of(2 * kPart + std::vector{kItem}, kInLoop), "torch.compile");
  expect_graph(job_of(std::vector{kItem} + 2 * kPart, kInLoop), "torch.compile");
  const std::vector<Action> metric(6, kLaunch);
  expect_graph(job_of(2 * kPart + std::vector{kItem} + metric + std::vector{kItem}), "torch.compile");
}

// An evaluation, or a line that is printed now and then.
TEST(GraphWaits, InFewStepsStayOutside) {
  const size_t without = 2 * kPart.size(), with_wait = without + 1;
  const std::vector<Action> rare = kPart + std::vector{kItem} + 7 * kPart;
  test::Job job = job_of(rare, kInLoop, 30);
  const std::vector<model::HostCall>& calls = job.process().threads[0].calls;
  std::vector<model::TimeSpan> steps;
  for (size_t i = 0; i < calls.size(); i += rare.size())
    for (const size_t first : {size_t{0}, with_wait, with_wait + without, with_wait + 2 * without}) {
      if (!steps.empty()) steps.back().end = calls[i + first].begin;
      steps.push_back({calls[i + first].begin, job.rank().steps.back().step.end});
    }
  test::set_steps(job, steps);
  test::set_shares(job, {{Category::LaunchDispatch, 0.55}, {Category::LaunchApi, 0.25}});
  expect_graph(job, "torch.compile");
}

// They do not depend on what the step launched: it can be captured behind them.
TEST(GraphWaits, OfCopiesToTheDeviceAreNone) {
  const Action copy{.op_class = OpClass::Copy,
                    .device_us = 10,
                    .waits = true,
                    .kind = RecordKind::CopyH2D,
                    .bytes = 1 << 20,
                    .caller = 0x3000};
  for (const bool is_pageable : {true, false}) {
    Action from = copy;
    from.pageable = is_pageable;
    expect_graph(job_of(kPart + std::vector{from, kSync} + kPart), "torch.compile");
  }
}

// A prefetcher waits for its own copies.
TEST(GraphWaits, OfAThreadThatLaunchesNothingAreNone) {
  test::Job job = job_of(kPart + std::vector{kItem} + kPart);
  model::Process& process = job.process();
  process.threads.push_back(process.threads[0]);
  for (size_t i = 0; i < process.threads[0].calls.size(); ++i) {
    const bool is_copy = process.threads[0].calls[i].op_class == OpClass::Copy;
    process.threads[is_copy ? 0 : 1].calls[i].op_class = OpClass::Other;
  }
  for (model::DeviceOp& op : process.devices[0].operations)
    op.launch_thread = op.kind == RecordKind::CopyD2H ? 1 : 0;
  expect_graph(job, "torch.compile");
}

// The compiler leaves the optimizer as it is: only a graph of the whole step cannot be.
TEST(GraphWaits, OfAGradScalerLeaveTheModelToTheCompiler) {
  Action launch = kLaunch;
  launch.device_us = 2;
  const size_t model = 400, optimizer = 40;
  const Action begin{.op_class = OpClass::OptimizerStep, .cost_us = 0};
  const std::vector<Action> step =
      std::vector<Action>(model, launch) + std::vector{kItem, begin} + std::vector<Action>(optimizer, launch);
  test::Job job = job_of(step);
  std::vector<model::HostCall>& calls = job.process().threads[0].calls;
  for (size_t i = model + 1; i < calls.size(); i += step.size()) calls[i].end = calls[i + optimizer].end;
  expect_graph(job, "torch.compile");
  EXPECT_FALSE(says(*Found(job, "launch-bound"), "whole step"));
}

// A loop over micro-batches reads each loss: that is outside of the model, if the stacks show it.
TEST(GraphWaits, OutsideOfTheModelLeaveItToTheCompiler) {
  const std::vector<Action> step = 4 * (kPart + std::vector{kItem});
  expect_graph(job_of(step, kInLoop), "torch.compile");
  expect_bound(job_of(step, kInModel), "torch.compile", "at gate.py:26 are");
  expect_bound(job_of(step), "torch.compile");
}

TEST(GraphWaits, AreThoseOfAnyProgram) {
  const Action free{.op_class = OpClass::Free, .cost_us = 5, .waits = true, .caller = 0x3000};
  for (const Action& wait : {kItem, kSync, free}) {
    test::Job job = job_of(kPart + std::vector{wait} + kPart);
    job.process().facts.clear();
    expect_bound(job, "CUDA graph");
  }
}

// moe-fullest-expert of tests/abroad: the waits gain little, what they rule out gains much.
TEST(GraphWaits, GoFirst) {
  Action launch = kLaunch, last = kLaunch;
  launch.device_us = 2;
  last.device_us = 400;
  const std::vector<Action> part(200, launch);
  const std::vector<Action> step = part + std::vector{last, kItem} + part;
  const test::Job job = job_of(step, kInModel);
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  ASSERT_GE(diagnosis.findings.size(), 2u);
  EXPECT_EQ(diagnosis.findings[0].id, "sync-per-step");
  EXPECT_TRUE(diagnosis.findings[0].prediction);
  EXPECT_EQ(diagnosis.findings[1].id, "launch-bound");
  EXPECT_TRUE(diagnosis.findings[1].prediction || diagnosis.findings[1].too_wide) << "they are gone by then";
  EXPECT_FALSE(says(diagnosis.findings[1], kAfter)) << diagnosis.findings[1].fix.summary;

  const test::Job few = job_of(step, kInModel, predict::kLeastReplaySteps - 1);
  const Diagnosis bounds = diagnose(few.run, few.ranks);
  ASSERT_GE(bounds.findings.size(), 2u);
  EXPECT_EQ(bounds.findings[0].id, "sync-per-step");
  EXPECT_FALSE(bounds.findings[0].prediction);
  EXPECT_EQ(bounds.findings[1].id, "launch-bound");
  EXPECT_TRUE(says(bounds.findings[1], kAfter)) << bounds.findings[1].fix.summary;
}

// molecule-layer-times of tests/abroad: without its timers, hooks and clocks of each layer, 2.2 times as
// fast.
TEST(GraphWaits, ThatTimeEachLayerTakeTheirHooksAlong) {
  const std::vector<Action> layer = {
      {.gap_us = 100, .device_us = 40}, {.gap_us = 100, .device_us = 40}, kSync};
  test::Job job = test::make_device_job(100 * layer, kSteps);
  test::set_shares(job, {{Category::LaunchDispatch, 0.5}, {Category::Sync, 0.1}});
  job.run.operations[1].name = "cudaDeviceSynchronize";
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  ASSERT_FALSE(diagnosis.findings.empty());
  const Finding& sync = diagnosis.findings.front();
  EXPECT_EQ(sync.id, "sync-per-step");
  EXPECT_FALSE(sync.prediction || sync.too_wide);
  EXPECT_GT(sync.ceiling_speedup.value_or(0), 2.2);
  expect_bound(job, "torch.compile");
}

}  // namespace
}  // namespace gpuwatch::advise
