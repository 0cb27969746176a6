// SPDX-License-Identifier: Apache-2.0
// Activations that the forward pass copies to the host and the backward pass copies back.
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/analyzer/advise/backward_thread.h"
#include "tests/unit/analyzer/advise/found.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;
using test::Action;
using trace::OpClass;
using trace::RecordKind;

constexpr size_t kSteps = 40, kLayers = 4;
constexpr uint64_t kSaved = 20'000'000;

Action copy(RecordKind kind, uint64_t bytes) {
  return {
      .op_class = OpClass::Copy, .gap_us = 5, .device_us = 1000, .waits = true, .kind = kind, .bytes = bytes};
}

// A layer at a time: forward, with what is saved; backward, with what is fetched.
test::Job saved_on_host(uint64_t fetched_bytes) {
  const Action kernel{.gap_us = 5, .device_us = 300};
  std::vector<Action> step;
  std::vector<bool> backward;
  for (size_t i = 0; i < kLayers; ++i) step.insert(step.end(), {kernel, copy(RecordKind::CopyD2H, kSaved)});
  backward.resize(step.size(), false);
  for (size_t i = 0; i < kLayers; ++i)
    step.insert(step.end(), {copy(RecordKind::CopyH2D, fetched_bytes), kernel});
  backward.resize(step.size(), true);
  test::Job job = test::make_device_job(step, kSteps);
  test::set_shares(job, {{Category::CopyD2H, 0.4}, {Category::CopyH2D, 0.4}, {Category::Compute, 0.2}});
  test::move_to_backward_thread(job, backward);
  return job;
}

// strain-saved of tests/abroad (save_on_cpu): 5.2 times as fast with all on the GPU. "Copy the next batch on
// a separate stream" was the advice, and there is no such copy.
TEST(BlockingCopy, OfWhatTheBackwardPassNeedsIsNoNextBatch) {
  const Found found(saved_on_host(kSaved), "blocking-copy");
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->fix.summary.starts_with("Keep on the GPU what the backward pass needs"))
      << found->fix.summary;
  EXPECT_FALSE(found->prediction);
  ASSERT_TRUE(found->ceiling_speedup);
  EXPECT_NEAR(*found->ceiling_speedup, 10.48 / 2.4, 0.05) << "eight kernels remain of the step";
}

// A thread that loads ahead: as many bytes go in as come out of a network of pictures.
TEST(BlockingCopy, OfAThreadThatLoadsAheadIsTheNextBatch) {
  test::Job job = saved_on_host(kSaved);
  job.process().threads[1].name = "prefetcher";
  const Found found(job, "blocking-copy");
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->fix.summary.starts_with("Copy the next batch")) << found->fix.summary;
}

TEST(BlockingCopy, OfOtherBytesIsNotWhatTheForwardPassSaved) {
  const Found found(saved_on_host(kSaved / 4), "blocking-copy");
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->fix.summary.starts_with("Copy the next batch")) << found->fix.summary;
}

}  // namespace
}  // namespace gpuwatch::advise
