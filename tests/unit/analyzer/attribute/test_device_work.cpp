// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "analyzer/attribute/device_work.h"
#include "run_builder.h"

namespace gpuwatch::attribute {
namespace {

using model::KernelClass;
using test::ms;
using trace::OpClass;
using trace::RecordKind;

// Two steps of 10 ms. In each: 4 ms of matmul, an all-reduce of 4 ms of which the first 3 are behind it, a
// copy.
struct TwoSteps {
  test::RunBuilder builder;
  RankAttribution row;
  TwoSteps() {
    const uint32_t thread = builder.thread("train");
    for (int step = 0; step < 2; ++step) {
      const model::Ns at = ms(100 + 10 * step);
      builder.kernel(thread, {at, at + ms(0.1)}, {at + ms(1), at + ms(5)});
      builder.kernel(thread, {at + ms(0.1), at + ms(0.2)}, {at + ms(2), at + ms(6)}, 1, true);
      builder.device_op(RecordKind::CopyD2D, {at + ms(7), at + ms(8)}, 0);
    }
    builder.run.kernels[0].name = "ampere_sgemm_128x64_nn";
    row = builder.attribute(ms(100), {ms(110), ms(120)});
  }
  const ClassTime* find(const DeviceWork& work, KernelClass wanted) const {
    for (const ClassTime& found : work.classes)
      if (found.kernel_class == wanted) return &found;
    return nullptr;
  }
};

TEST(DeviceWork, TimesAreOfClassesAndOfKernels) {
  const TwoSteps job;
  const DeviceWork work = device_work(job.builder.run, job.row);
  EXPECT_EQ(work.ns, ms(18));
  const ClassTime* matmul = job.find(work, KernelClass::kMatmul);
  ASSERT_NE(matmul, nullptr);
  EXPECT_EQ(matmul->time.ns, ms(8));
  EXPECT_EQ(matmul->time.alone_ns, ms(2));  // 1 ms a step before the all-reduce begins
  EXPECT_EQ(matmul->time.count, 2);
  EXPECT_EQ(job.find(work, KernelClass::kDeviceCopy)->time.alone_ns, ms(2));
  ASSERT_EQ(work.kernels.size(), 3);
  EXPECT_EQ(work.kernels[0].ns, ms(8));
}

TEST(DeviceWork, CommunicationIsHiddenBehindCompute) {
  const TwoSteps job;
  const auto found = communication(job.builder.run, job.row);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->ns, ms(8));
  EXPECT_EQ(found->exposed_ns, ms(2));
  EXPECT_EQ(found->count, 2);
  EXPECT_DOUBLE_EQ(found->hidden_share(), 0.75);
}

TEST(DeviceWork, AJobWithoutCollectivesHasNoCommunication) {
  test::RunBuilder builder;
  builder.kernel(builder.thread("train"), {ms(100), ms(101)}, {ms(101), ms(105)});
  const RankAttribution row = builder.attribute(ms(100), {ms(110)});
  EXPECT_FALSE(communication(builder.run, row));
}

TEST(DeviceWork, OnlyWhatIsWithinTheStepsCounts) {
  test::RunBuilder builder;
  builder.kernel(builder.thread("train"), {ms(100), ms(101)}, {ms(95), ms(105)});
  const DeviceWork work = device_work(builder.run, builder.attribute(ms(100), {ms(110)}));
  EXPECT_EQ(work.ns, ms(5));
}

// Ten launches within a millisecond, of kernels of 10 ms: each waits for those before it.
TEST(LaunchQueue, SaysHowFarTheHostIsAhead) {
  test::RunBuilder builder;
  const uint32_t thread = builder.thread("train");
  for (int i = 0; i < 10; ++i)
    builder.kernel(thread, {ms(100 + 0.1 * i), ms(100.05 + 0.1 * i)},
                   {ms(100.5 + 10 * i), ms(110.5 + 10 * i)});
  const auto ahead = launch_queue(builder.run, builder.attribute(ms(100), {ms(210)}));
  ASSERT_TRUE(ahead);
  EXPECT_EQ(ahead->launches, 10);
  EXPECT_NEAR(ahead->median_ns, ms(45), ms(6));
  EXPECT_NEAR(ahead->median_depth, 4, 1);
  EXPECT_LT(ahead->empty_share, 0.2);
}

TEST(LaunchQueue, IsEmptyWhereTheGpuWaitsForLaunches) {
  test::RunBuilder builder;
  const uint32_t thread = builder.thread("train");
  for (int i = 0; i < 10; ++i)
    builder.kernel(thread, {ms(100 + i), ms(100.05 + i)}, {ms(100.1 + i), ms(100.2 + i)});
  const auto behind = launch_queue(builder.run, builder.attribute(ms(100), {ms(110)}));
  ASSERT_TRUE(behind);
  EXPECT_NEAR(behind->median_ns, ms(0.1), 1000);
  EXPECT_EQ(behind->median_depth, 0);
  EXPECT_EQ(behind->empty_share, 1);
}

}  // namespace
}  // namespace gpuwatch::attribute
