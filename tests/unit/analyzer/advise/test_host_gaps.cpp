// SPDX-License-Identifier: Apache-2.0
// Whose time between launches is: the framework's (`launch-bound`) or the script's (`host-work`), for gaps of
// any length.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "analyzer/advise/diagnose.h"
#include "tests/unit/analyzer/synthetic_run.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;
using test::Action;
using trace::OpClass;
using Shares = std::initializer_list<std::pair<Category, double>>;

constexpr size_t kSteps = 100;

test::Job job_of(const std::vector<Action>& step, Shares shares, bool is_torch) {
  test::Job job = test::make_device_job(step, kSteps);
  if (!is_torch) job.process().facts.clear();
  test::set_shares(job, shares);
  return job;
}

std::optional<Finding> find(const test::Job& job, const std::string& id) {
  for (const Finding& finding : diagnose(job.run, job.ranks).findings)
    if (finding.id == id) return finding;
  return std::nullopt;
}

void expect_achieved(const std::optional<Finding>& finding, const std::vector<Action>& fixed) {
  ASSERT_TRUE(finding && finding->prediction);
  const double really = test::device_step_us(fixed, kSteps) / 1e3;
  EXPECT_LE(finding->prediction->value.low, really * 1.001);
  EXPECT_GE(finding->prediction->value.high, really * 0.999);
}

// fully_shard, deep module trees: 0.3 ms of hooks before each launch.
const std::vector<Action> kSharded(100, Action{.gap_us = 300, .cost_us = 5, .device_us = 30});
const Shares kSharded90 = {{Category::LaunchDispatch, 0.89}, {Category::LaunchApi, 0.01}};

TEST(HostGaps, EvenGapsAreTheFrameworks) {
  const test::Job job = job_of(kSharded, kSharded90, true);
  const auto finding = find(job, "launch-bound");
  ASSERT_TRUE(finding);
  EXPECT_FALSE(finding->prediction);  // torch.compile was measured with shorter ones only
  EXPECT_GT(*finding->ceiling_speedup, 5);
  EXPECT_LE(*finding->ceiling_speedup, 30.5 / 3);  // the GPU computes for 3 ms
  EXPECT_FALSE(find(job, "host-work"));
}

TEST(HostGaps, EvenGapsOutsideOfAFrameworkGoWithAGraph) {
  const auto finding = find(job_of(kSharded, kSharded90, false), "launch-bound");
  std::vector<Action> graph(100, Action{.cost_us = 0.01, .device_us = 30});
  graph[0].gap_us = 300;
  expect_achieved(finding, graph);
}

// torch.optim groups the parameters first: 3 ms of 640 of them. The script cannot move that elsewhere.
TEST(HostGaps, PreparingTheOptimizersFirstLaunchIsNotTheScripts) {
  std::vector<Action> step(50, Action{.gap_us = 8, .cost_us = 4, .device_us = 10});
  step[40] = {.op_class = OpClass::OptimizerStep, .cost_us = 0};
  step[41].gap_us = 700;
  const auto with_optimizer = [&](size_t first_us) {
    test::Job job = job_of(step, {{Category::LaunchDispatch, 0.6}}, true);
    std::vector<model::HostCall>& calls = job.process().threads[0].calls;
    for (size_t i = 40; i < calls.size(); i += 50) {
      calls[i].begin += model::Ns(first_us) * 1000;
      calls[i].end = calls[i + 9].end;
    }
    return job;
  };
  EXPECT_FALSE(find(with_optimizer(0), "host-work"));
  EXPECT_TRUE(find(with_optimizer(600), "host-work")) << "most of it is before the optimizer";
}

// torch.randn(size).to("cuda"): made on the GPU it is not copied, made by a worker it is.
TEST(HostGaps, WorkThatEndsInACopyMayTakeItAlong) {
  const Action work{.op_class = OpClass::Copy,
                    .gap_us = 3000,
                    .device_us = 200,
                    .waits = true,
                    .kind = trace::RecordKind::CopyH2D,
                    .pageable = true,
                    .bytes = 4 << 20},
      kernel{.device_us = 1000};
  const auto finding = find(job_of({work, kernel}, {{Category::HostCompute, 0.7}}, true), "host-work");
  Action copy = work;
  copy.gap_us = 0;
  expect_achieved(finding, {copy, kernel});
  expect_achieved(finding, {kernel});
}

TEST(HostGaps, OnePlaceThatTakesLongerIsTheScripts) {
  std::vector<Action> step(50, Action{.gap_us = 8, .cost_us = 4, .device_us = 10});
  step[20].gap_us = 700;
  const Shares shares = {{Category::LaunchDispatch, 0.6}};
  const auto finding = find(job_of(step, shares, true), "host-work");
  step[20].gap_us = 0;
  expect_achieved(finding, step);
  step[20].gap_us = 8;
  EXPECT_FALSE(find(job_of(step, {{Category::LaunchDispatch, 0.3}}, true), "host-work"));
}

// An optimizer in host memory: gradients go down, weights come up again. Every 50 steps, or on the GPU, the
// copies go with it, in another process they do not.
TEST(HostGaps, CopiesAroundTheWorkMayGoWithIt) {
  std::vector<Action> step(20, Action{.gap_us = 8, .cost_us = 4, .device_us = 500});
  Action down{.op_class = OpClass::Copy, .gap_us = 8, .cost_us = 4, .device_us = 900, .bytes = 9'000'000},
      up = down;
  down.kind = trace::RecordKind::CopyD2H;
  up.kind = trace::RecordKind::CopyH2D;
  up.gap_us = 20000;
  std::vector<Action> with = step;
  with.insert(with.end(), {down, Action{.op_class = OpClass::Sync, .cost_us = 4, .waits = true}, up});
  const auto finding = find(job_of(with, {{Category::HostCompute, 0.6}}, true), "host-work");
  with.back().gap_us = 0;
  expect_achieved(finding, with);
  expect_achieved(finding, step);
}

// Calls that are too short for a stack each: the samples of the training thread know the line.
TEST(HostGaps, TheLineIsThatOfTheSamples) {
  test::Job job = job_of(kSharded, {}, true);
  const model::Step all = {job.rank().steps.front().step.begin, job.rank().steps.back().step.end};
  const std::string in_torch = "/site-packages/torch/nn/modules/module.py:1 _call_impl\n";
  job.run.texts[71] = in_torch + "/home/a/net.py:40 forward";
  for (uint32_t other = 0; other < 5; ++other)
    job.run.texts[72 + other] = in_torch + fmt::format("/home/a/block{}.py:7 forward", other);
  const auto place = [&](size_t in_forward) {
    test::Job sampled = job;
    sampled.rank().slices = {{all.begin, all.end, Category::LaunchDispatch, 0}};
    test::set_shares(sampled, kSharded90);
    for (size_t i = 0; i < 60; ++i)
      sampled.process().threads[0].worker_stacks.push_back(
          {all.begin + model::Ns(i) * (all.end - all.begin) / 60, 1'000'000,
           i < in_forward ? 71u : 72u + uint32_t(i % 5), sampled.process().pid});
    const auto finding = find(sampled, "launch-bound");
    return finding ? finding->fix.location : "not found";
  };
  EXPECT_EQ(place(30), "/home/a/net.py:40");
  EXPECT_EQ(place(10), "");
}

// Six launches a step are no framework's.
TEST(HostGaps, AFewLaunchesFarApartAreTheScripts) {
  const std::vector<Action> step(6, Action{.gap_us = 400, .cost_us = 4, .device_us = 50});
  const auto finding = find(job_of(step, {{Category::LaunchDispatch, 0.85}}, false), "host-work");
  expect_achieved(finding, std::vector<Action>(6, Action{.cost_us = 4, .device_us = 50}));
  EXPECT_FALSE(find(job_of(step, {{Category::LaunchDispatch, 0.85}}, false), "launch-bound"));
}

// The fix stands before the title.
TEST(HostGaps, TheFixSaysWhichWork) {
  const std::vector<Action> step(6, Action{.gap_us = 400, .cost_us = 4, .device_us = 50});
  test::Job job = job_of(step, {{Category::LaunchDispatch, 0.85}}, false);
  const auto unseen = find(job, "host-work");
  ASSERT_TRUE(unseen);
  EXPECT_NE(unseen->fix.summary.find(" ms of work that each step does to "), std::string::npos)
      << unseen->fix.summary;
  const model::Ns begin = job.rank().steps.front().step.begin, end = job.rank().steps.back().step.end;
  job.rank().slices = {{begin, end, Category::HostCompute, 0}};
  job.run.texts[71] = "/home/a/train.py:55 augment\n/home/a/train.py:80 main";
  for (int i = 0; i < 20; ++i)
    job.process().threads[0].worker_stacks.push_back(
        {begin + i * (end - begin) / 20, 1'000'000, 71u, job.process().pid});
  const auto seen = find(job, "host-work");
  ASSERT_TRUE(seen);
  EXPECT_TRUE(seen->fix.summary.starts_with("Move the work in augment to ")) << seen->fix.summary;
  EXPECT_EQ(seen->fix.location, "/home/a/train.py:55");
}

// A busy neighbour: the host loses its core for 2 ms once a step, each time before another launch.
TEST(HostGaps, AHostThatIsLateSomewhereElseEachTimeWorksOnNothing) {
  std::vector<Action> steps;
  for (size_t step = 0; step < kSteps; ++step)
    for (size_t i = 0; i < 100; ++i)
      steps.push_back({.gap_us = i == step * 37 % 100 ? 2000.0 : 20.0, .cost_us = 4, .device_us = 5});
  test::Job job = test::make_device_job(steps, 1);
  const model::Step all = job.rank().steps.front().step;
  std::vector<model::TimeSpan> each;
  const auto& calls = job.process().threads[0].calls;
  for (size_t i = 0; i < calls.size(); i += 100)
    each.push_back({i ? calls[i - 1].end : all.begin,
                    i + 100 < calls.size() ? calls[i + 99].end : std::max(all.end, calls.back().end)});
  test::set_steps(job, each);
  test::set_shares(job, {{Category::LaunchDispatch, 0.4}, {Category::HostCompute, 0.4}});
  EXPECT_FALSE(find(job, "host-work"));
  EXPECT_TRUE(find(job, "launch-bound"));
}

// 8 ms of metrics, of which other programs take 4: half of the idle time is not the script's, the work is.
TEST(HostGaps, WorkThatLosesItsCoreIsStillTheScripts) {
  const std::vector<Action> step = {{.gap_us = 8000, .cost_us = 5, .device_us = 1000}, {.device_us = 1000}};
  test::Job job = job_of(step, {{Category::HostCompute, 0.2}, {Category::Sched, 0.5}}, false);
  for (const model::HostCall& call : job.process().threads[0].calls) {
    const model::Ns begin = call.begin - 6'000'000;
    if (&call - job.process().threads[0].calls.data() == 0 || (&call)->begin - (&call - 1)->end < 1'000'000)
      continue;
    job.rank().slices.push_back({begin, begin + 4'000'000, Category::Sched, 0, model::kNone});
    job.rank().slices.push_back({begin + 4'000'000, call.begin, Category::HostCompute, 0, model::kNone});
  }
  const auto finding = find(job, "host-work");
  ASSERT_TRUE(finding);
  ASSERT_TRUE(finding->prediction);
  EXPECT_LT(finding->prediction->value.expected, 7);
}

// torch.compile(mode="reduce-overhead"): few launches are left to save.
TEST(HostGaps, AStepOfGraphsNeedsALargerBatch) {
  const Action graph{.op_class = OpClass::GraphLaunch, .gap_us = 500, .cost_us = 20, .device_us = 200};
  const auto finding =
      find(job_of({graph, graph}, {{Category::LaunchDispatch, 0.6}, {Category::LaunchApi, 0.02}}, true),
           "launch-bound");
  ASSERT_TRUE(finding);
  EXPECT_EQ(setting_name(finding->fix.change), "batch_size");
  ASSERT_TRUE(finding->ceiling_speedup);
  EXPECT_LE(*finding->ceiling_speedup, 1 / (1 - 0.62) + 0.01);
  EXPECT_FALSE(find(job_of({graph, graph}, {}, true), "launch-bound"));
}

// A graph of the forward pass, and an optimizer that launches one kernel after the other.
TEST(HostGaps, LaunchesBesideAGraphAreStillLaunches) {
  std::vector<Action> step(80, Action{.gap_us = 20, .cost_us = 4, .device_us = 3});
  step[0] = {.op_class = OpClass::GraphLaunch, .gap_us = 100, .cost_us = 20, .device_us = 200};
  const auto finding = find(job_of(step, {{Category::LaunchDispatch, 0.7}}, true), "launch-bound");
  ASSERT_TRUE(finding);
  EXPECT_EQ(setting_name(finding->fix.change), "CUDA graph");  // not what it has already
}

}  // namespace
}  // namespace gpuwatch::advise
