// SPDX-License-Identifier: Apache-2.0
// Functions of the script that the model or what holds the loop calls: named, with a bound.
#include <gtest/gtest.h>

#include <string>

#include "cpu_training.h"
#include "found.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;
using model::Ns;

constexpr const char* kCallback =
    "/v/site-packages/numpy/lib/_function_base.py:9 quantile\n/home/a/train.py:14 Watch.on_step_end\n"
    "/v/site-packages/transformers/trainer_callback.py:556 CallbackHandler.call_event\n/home/a/train.py:80 "
    "main";
constexpr const char* kHook =
    "/v/site-packages/numpy/lib/_function_base.py:9 quantile\n/home/a/train.py:12 watch\n"
    "/v/site-packages/torch/nn/modules/module.py:1900 Module._call_impl\n/home/a/train.py:80 main";

// 100 steps of 40 ms, 70% of them within `text`.
Found mostly_in(const char* text, const char* threads = "1") {
  CpuTraining training([](size_t) { return 39.0; });
  model::Process& process = training.job.process();
  process.facts["torch_threads"] = threads;
  const Ns begin = training.job.rank().steps.front().step.begin;
  const Ns end = training.job.rank().steps.back().step.end;
  training.job.rank().slices = {{begin, end, Category::Compute, 0}};
  training.job.run.texts[91] = text;
  training.job.run.texts[92] = "/v/site-packages/torch/_tensor.py:5 backward\n/home/a/train.py:80 main";
  constexpr Ns kSamples = 2000;
  for (Ns i = 0; i < kSamples; ++i)
    process.threads[0].worker_stacks.push_back({begin + i * (end - begin) / kSamples,
                                                (end - begin) / kSamples, i % 10 < 7 ? 91u : 92u,
                                                process.pid});
  return {training.job, "host-work"};
}

TEST(Callbacks, AreNamedWithABound) {
  const Found found = mostly_in(kCallback);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->title, "Host work: 70% of each step goes into the callback Watch.on_step_end");
  EXPECT_EQ(found->fix.summary, "Let the callback Watch.on_step_end work every 50 steps, or remove it");
  EXPECT_EQ(found->fix.location, "/home/a/train.py:14");
  EXPECT_FALSE(found->prediction);
  EXPECT_NEAR(found->ceiling_speedup.value_or(0), 1 / 0.3, 0.4);
}

// Of ignite, a step of 21.6 ms was 5.0 without the callback, and 4.0 times as fast at most by its share.
TEST(Callbacks, LetTheThreadsOfTrainingFallAsleep) {
  EXPECT_GT(mostly_in(kCallback, "2")->ceiling_speedup.value_or(0),
            1.5 * mostly_in(kCallback)->ceiling_speedup.value_or(0));
}

TEST(Hooks, TakeTheCachesFromTheModel) {
  const Found found = mostly_in(kHook);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->title, "Host work: 70% of each step goes into the hook watch, which the model calls");
  EXPECT_GT(found->ceiling_speedup.value_or(0), 2 * mostly_in(kCallback)->ceiling_speedup.value_or(0));
}

}  // namespace
}  // namespace gpuwatch::advise
