// SPDX-License-Identifier: Apache-2.0
// Waits for the GPU that are no .item() of the script's: PyTorch reads by itself, and other changes end that.
#include <gtest/gtest.h>

#include "tests/unit/analyzer/advise/found.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;
using test::Action;
using trace::OpClass;
using trace::RecordKind;

constexpr const char* kInScaler =
    "/site-packages/torch/amp/grad_scaler.py:346 GradScaler._maybe_opt_step.<locals>.<genexpr>\n"
    "/site-packages/torch/amp/grad_scaler.py:346 GradScaler._maybe_opt_step\n"
    "/site-packages/torch/amp/grad_scaler.py:461 GradScaler.step\n/code/train.py:20 main";
constexpr const char* kOwn = "/code/train.py:24 main";

// `stacks`: of the waits, by turns; null: none.
test::Job job_of(std::initializer_list<const char*> stacks, const char* kernel = "gemm") {
  const Action work{.gap_us = 300, .device_us = 500};
  const Action value{.op_class = OpClass::Copy,
                     .gap_us = 2,
                     .device_us = 10,
                     .waits = true,
                     .kind = RecordKind::CopyD2H,
                     .bytes = 4,
                     .caller = 0x2000};
  test::Job job = test::make_device_job({work, work, value}, 100);
  test::set_shares(job, {{Category::Sync, 0.37}});
  model::Thread& thread = job.process().threads[0];
  size_t turn = 0;
  for (const model::HostCall& call : thread.calls) {
    if (call.op_class != OpClass::Copy) continue;
    const size_t which = turn++ % stacks.size();
    const char* const stack = stacks.begin()[which];
    if (!stack) continue;
    job.run.texts[uint32_t(which + 1)] = stack;
    thread.stacks.push_back({call.begin, uint32_t(which + 1)});
  }
  for (size_t i = 1; i < job.run.kernels.size(); i += 2) job.run.kernels[i].name = kernel;  // before the copy
  return job;
}

bool says(const Found& found, const char* words) {
  return found->fix.summary.find(words) != std::string::npos;
}

// Every 50 steps the scaler cannot be asked.
TEST(SyncReads, AGradScalerNeedsAFusedOptimizer) {
  const Found found(job_of({kInScaler, nullptr}), "sync-per-step");
  ASSERT_TRUE(found);
  EXPECT_TRUE(says(found, "Use the optimizer with fused=True")) << found->fix.summary;
  EXPECT_FALSE(says(found, ".item()")) << found->fix.summary;
  EXPECT_EQ(found->fix.location, "/code/train.py:20");
}

// The prediction is for both.
TEST(SyncReads, NamesBothWhereTheLossIsReadToo) {
  const Found found(job_of({kInScaler, kOwn}), "sync-per-step");
  ASSERT_TRUE(found);
  EXPECT_TRUE(says(found, ".item()") && says(found, "fused=True")) << found->fix.summary;
}

TEST(SyncReads, AShapeThatDependsOnDataNeedsAMask) {
  for (const char* kernel : {"DeviceReduceSingleTileKernel<NonZeroOp<bool>, int>", "unique_kernel"}) {
    const Found found(job_of({kOwn, nullptr}, kernel), "sync-per-step");
    ASSERT_TRUE(found);
    EXPECT_TRUE(says(found, "x[mask]") && says(found, "/code/train.py:24")) << found->fix.summary;
    EXPECT_FALSE(says(found, ".item()")) << found->fix.summary;
  }
}

// Many elements are counted by several blocks, and added up by one more kernel.
TEST(SyncReads, AShapeMayBeCountedByTwoKernels) {
  test::Job job = job_of({kOwn, nullptr}, "DeviceReduceSingleTileKernel<int>");
  EXPECT_TRUE(says(Found(job, "sync-per-step"), ".item()"));
  for (size_t i = 0; i < job.run.kernels.size(); i += 2)
    job.run.kernels[i].name = "DeviceReduceKernel<NonZeroOp>";
  EXPECT_TRUE(says(Found(job, "sync-per-step"), "x[mask]"));
}

TEST(SyncReads, AreTheScriptsWhereNothingTells) {
  for (const char* stack : {kOwn, static_cast<const char*>(nullptr)}) {
    const Found found(job_of({stack}), "sync-per-step");
    ASSERT_TRUE(found);
    EXPECT_TRUE(says(found, ".item()")) << found->fix.summary;
    EXPECT_FALSE(says(found, "fused")) << found->fix.summary;
  }
}

}  // namespace
}  // namespace gpuwatch::advise
