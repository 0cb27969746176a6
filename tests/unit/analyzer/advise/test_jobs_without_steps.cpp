// SPDX-License-Identifier: Apache-2.0
// What stack samples of the training thread tell of a job whose steps no hook sees (JAX, Keras on JAX).
#include <gtest/gtest.h>

#include "found.h"

namespace gpuwatch::advise {
namespace {

using model::Ns;
using test::Job;

// A job of 20 s without a GPU, whose training thread is sampled 10 times a second: in `frame`, called from
// the script, when `is_there`; else in the script alone.
Job sampled_job(const char* frame, const std::function<bool(int sample)>& is_there) {
  constexpr Ns kTenth = 100'000'000;
  constexpr uint32_t kThere = 71, kElsewhere = 72;
  Job job = test::make_loader_job({.workers = 0});
  model::Process& process = job.process();
  process.epochs.clear();
  process.loaders.clear();
  job.rank().steps.clear();
  job.rank().series.steps.clear();
  process.start = 0;
  process.last_seen = 200 * kTenth;
  job.run.texts[kThere] = std::string("/v/site-packages/") + frame + "\n/home/a/train.py:30 main";
  job.run.texts[kElsewhere] = "/home/a/train.py:33 main";
  for (int i = 0; i < 200; ++i)
    process.threads[0].worker_stacks.push_back(
        {i * kTenth, kTenth, is_there(i) ? kThere : kElsewhere, process.pid});
  return job;
}

TEST(Recompilation, IsSeenInSamplesWhereNoCallIsRecorded) {
  constexpr const char* kCompiles = "jax/_src/compiler.py:400 backend_compile_and_load";
  const auto mostly = [](int sample) { return sample % 5 != 0; };
  const Job job = sampled_job(kCompiles, mostly);
  const Found found(job, "recompilation");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->fix.location, "/home/a/train.py:30");
  EXPECT_GE(*found->ceiling_speedup, 5);
  EXPECT_LT(*found->ceiling_speedup, 20);
  EXPECT_EQ(advise::diagnose(job.run, job.ranks).verdict.id, "host-bound");
  EXPECT_FALSE(Found(sampled_job("jax/_src/pjit.py:139 _run_python_pjit", mostly), "recompilation"));
  EXPECT_FALSE(Found(sampled_job(kCompiles, [](int sample) { return sample < 95; }), "recompilation"))
      << "warm-up";
  EXPECT_FALSE(Found(sampled_job(kCompiles, [](int sample) { return sample / 30 == 4; }), "recompilation"))
      << "one long compilation";
  Job traced = sampled_job(kCompiles, [](int sample) { return sample / 30 == 4; });
  traced.run.texts[73] = "/v/site-packages/jax/_src/pjit.py:1546 _shardings\n/home/a/train.py:30 main";
  for (size_t i = 123; i < 150; i += 6) traced.process().threads[0].worker_stacks[i].text = 73;
  EXPECT_FALSE(Found(traced, "recompilation")) << "the same, with tracing in between";
  traced.run.texts[73] =
      "/v/site-packages/jax/_src/array.py:298 ArrayImpl.__float__\n/home/a/train.py:31 main";
  EXPECT_TRUE(Found(traced, "recompilation")) << "each time for one result";
}

// epidemic-horizons of tests/abroad: nine of ten samples in XLA, and none in a step.
TEST(Recompilation, IsSeenWhereNothingRunsInBetween) {
  const auto traced_each = [](int samples, const char* function) {
    Job job = sampled_job("jax/_src/compiler.py:400 backend_compile_and_load", [](int) { return true; });
    job.run.texts[73] = "/v/site-packages/jax/_src/core.py:713 Primitive.bind\n/home/a/train.py:12 " +
                        std::string(function) +
                        "\n/v/site-packages/jax/_src/interpreters/partial_eval.py:2312 trace_to_jaxpr";
    for (size_t i = 100; i < 200; i += size_t(samples))
      for (size_t again : {0, 1}) job.process().threads[0].worker_stacks[i + again].text = 73;
    return job;
  };
  const Job job = traced_each(10, "loss");
  const Found found(job, "recompilation");
  ASSERT_TRUE(found);
  EXPECT_GE(*found->ceiling_speedup, 20);
  EXPECT_FALSE(Found(traced_each(25, "loss"), "recompilation")) << "training, and evaluation";
  Job first = traced_each(10, "loss");
  for (size_t i = 100; i < 200; i += 10) {
    const uint32_t text = 80 + uint32_t(i);
    first.run.texts[text] = first.run.texts[73] + std::to_string(i);
    first.run.texts[text].replace(first.run.texts[text].find("loss"), 4, "part_" + std::to_string(i));
    for (size_t again : {0, 1}) first.process().threads[0].worker_stacks[i + again].text = text;
  }
  EXPECT_FALSE(Found(first, "recompilation")) << "each function once";
}

TEST(Recompilation, IsNotTheCompiledProgram) {
  constexpr const char* kCompiles = "jax/_src/compiler.py:400 backend_compile_and_load";
  Job job = sampled_job(kCompiles, [](int sample) { return sample % 10 < 3; });
  const double bound = Found(job, "recompilation")->ceiling_speedup.value();
  job.run.texts[72] =
      "/v/site-packages/jax/_src/interpreters/pxla.py:395 ExecuteReplicated.__call__\n/home/a/train.py:30 "
      "main";
  for (size_t i = 109; i < 200; i += 10) job.process().threads[0].worker_stacks[i].text = 74;
  job.run.texts[74] = "/home/a/train.py:33 main";
  EXPECT_EQ(Found(job, "recompilation")->ceiling_speedup, bound);
}

// TensorFlow optimizes what it traced where it first runs it.
TEST(Recompilation, MayHaveTheFirstRunOfWhatWasTraced) {
  constexpr const char* kTraces = "tensorflow/python/framework/op_def_library.py:778 _apply_op_helper";
  const auto half = [](int sample) { return sample % 10 < 5; };
  Job job = sampled_job(kTraces, half);
  job.run.texts[73] =
      "/v/site-packages/tensorflow/python/eager/execute.py:53 quick_execute\n/home/a/train.py:30 main";
  EXPECT_LT(Found(job, "recompilation")->ceiling_speedup, 3);
  for (int i = 105; i < 200; i += 10)
    for (int run = 0; run < 3; ++run) job.process().threads[0].worker_stacks[size_t(i + run)].text = 73;
  EXPECT_GE(Found(job, "recompilation")->ceiling_speedup, 5);
  for (int i = 105; i < 200; i += 10)
    job.process().threads[0].worker_stacks[size_t(i)].text = job.process().threads[0].worker_stacks[9].text;
  EXPECT_LT(Found(job, "recompilation")->ceiling_speedup, 3) << "after something else";
}

TEST(HostWork, IsSeenInSamplesOfAJobWithoutSteps) {
  const auto half = [](int sample) { return sample % 2 == 0; };
  const Job job = sampled_job("matplotlib/figure.py:3164 Figure.draw", half);
  const Found found(job, "host-work");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->fix.location, "/home/a/train.py:30");
  EXPECT_GT(*found->ceiling_speedup, 2);
  EXPECT_LT(*found->ceiling_speedup, 3);
  EXPECT_EQ(advise::diagnose(job.run, job.ranks).verdict.id, "host-bound");
  EXPECT_FALSE(Found(sampled_job("jax/_src/pjit.py:139 _run_python_pjit", half), "host-work"));
  EXPECT_FALSE(Found(sampled_job("flax/linen/module.py:9 Module.__call__", half), "host-work"));
}

TEST(EvaluationShare, IsSeenInSamplesOfAJobWithoutSteps) {
  constexpr const char* kPredicts = "keras/src/backend/jax/trainer.py:412 JAXTrainer.predict";
  const Job job = sampled_job(kPredicts, [](int sample) { return sample % 2 == 0; });
  const Found found(job, "evaluation-share");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->fix.location, "/home/a/train.py:30");
  EXPECT_GT(*found->ceiling_speedup, 2);
  EXPECT_EQ(advise::diagnose(job.run, job.ranks).verdict.id, "host-bound");
  EXPECT_FALSE(Found(sampled_job(kPredicts, [](int sample) { return sample % 10 == 0; }), "evaluation-share"))
      << "a tenth is usual";
  constexpr const char* kFits = "keras/src/backend/jax/trainer.py:300 JAXTrainer.fit";
  EXPECT_FALSE(Found(sampled_job(kFits, [](int) { return true; }), "evaluation-share"));
}

}  // namespace
}  // namespace gpuwatch::advise
