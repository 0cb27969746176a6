// SPDX-License-Identifier: Apache-2.0
// Steps that run forward and backward several times: gradients of many batches, or of each sample.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/analyzer/advise/backward_thread.h"
#include "tests/unit/analyzer/advise/found.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;
using test::Action;
using trace::OpClass;

constexpr size_t kSteps = 40, kPasses = 6;
const char* const kInModel =
    "/site-packages/torch/nn/modules/linear.py:134 Linear.forward\n"
    "/site-packages/torch/nn/modules/module.py:1775 Module._call_impl\n/code/train.py:30 main";
const char* const kInNorms = "/code/private.py:12 gradients\n/code/train.py:33 main";

// What one pass launches, in this order.
struct Launches {
  size_t forward, backward, own = 0;
};

bool is_backward(const Launches& pass, size_t number) {
  return number >= pass.forward && number < pass.forward + pass.backward;
}

// The backward pass has a thread of its own. A stack sample at each launch of the other one.
test::Job job_of(const std::vector<Launches>& passes) {
  std::vector<Action> step;
  std::vector<bool> backward;
  std::vector<const char*> stacks;
  for (const Launches& pass : passes) {
    for (size_t i = 0; i < pass.forward + pass.backward + pass.own; ++i) {
      step.push_back({.gap_us = 12, .device_us = 2, .blocks = 4});
      backward.push_back(is_backward(pass, i));
      stacks.push_back(i < pass.forward ? kInModel : kInNorms);
    }
  }
  test::Job job = test::make_device_job(step, kSteps);
  test::set_shares(job, {{Category::LaunchDispatch, 0.8}, {Category::Compute, 0.1}});
  job.rank().series.samples_per_step = 0;
  job.run.texts[1] = kInModel;
  job.run.texts[2] = kInNorms;
  const std::vector<model::HostCall>& calls = job.process().threads[0].calls;
  for (size_t i = 0; i < calls.size(); ++i) {
    const size_t at = i % step.size();
    if (!backward[at])
      job.process().threads[0].worker_stacks.push_back(
          {calls[i].begin - 1000, 1'000'000, stacks[at] == kInModel ? 1u : 2u, job.process().pid});
  }
  test::move_to_backward_thread(job, backward);
  return job;
}

// A job without a loader that says how many samples a batch has, as nanoGPT.
TEST(Passes, OfAccumulatedGradientsAreTheSameTrainingInOne) {
  const Found found(job_of(std::vector(kPasses, Launches{20, 40})), "small-batch");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->fix.summary,
            "Use a larger batch (4x), if it fits into GPU memory, instead of accumulating the gradients of 6 "
            "batches: the same training");
}

// private-falls of tests/abroad: the norms of each recording's gradients; a larger batch has as many more
// passes (none gained), all in one gained 3.4 times.
TEST(Passes, OfWhoseGradientsTheScriptWorksOnAreTheScripts) {
  const test::Job job = job_of(std::vector(kPasses, Launches{20, 40, 30}));
  EXPECT_FALSE(Found(job, "small-batch"));
  const Found found(job, "launch-bound");
  ASSERT_TRUE(found);
  EXPECT_NE(found->title.find("in 6 passes forward and backward"), std::string::npos) << found->title;
  EXPECT_NE(found->fix.summary.find("torch.func.vmap"), std::string::npos) << found->fix.summary;
  EXPECT_EQ(found->fix.location, "/code/private.py:12");
  ASSERT_TRUE(found->ceiling_speedup);
  EXPECT_GT(*found->ceiling_speedup, 3.4);
  EXPECT_LE(*found->ceiling_speedup, double(kPasses));
}

TEST(Passes, AreOnlyThoseOfTheBackwardPasssThread) {
  test::Job job = job_of(std::vector(kPasses, Launches{20, 40}));
  job.process().threads[1].name = "normalizes batches";
  const Found found(job, "small-batch");
  ASSERT_TRUE(found);
  EXPECT_NE(found->fix.summary.find("retune"), std::string::npos) << found->fix.summary;
}

// Two networks, a pass each of their own; or another loss of the same forward pass.
TEST(Passes, OfOtherNetworksOrLossesAreNone) {
  for (const std::vector<Launches>& passes : std::vector<std::vector<Launches>>{
           {{20, 40}, {20, 40}},
           {{20, 40}, {20, 40}, {40, 90}},
           {{60, 40}, {2, 40}, {2, 40}, {2, 40}},
       }) {
    const Found found(job_of(passes), "small-batch");
    ASSERT_TRUE(found);
    EXPECT_NE(found->fix.summary.find("retune"), std::string::npos) << found->fix.summary;
  }
}

}  // namespace
}  // namespace gpuwatch::advise
