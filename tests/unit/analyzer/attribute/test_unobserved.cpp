// SPDX-License-Identifier: Apache-2.0
// Launches without a device timeline (CUPTI absent or taken): only what the host's calls prove is said.
#include <gtest/gtest.h>

#include "run_builder.h"

namespace gpuwatch {
namespace {

using attribute::Category;
using attribute::RankAttribution;
using test::CopyShape;
using test::RunBuilder;
using test::us;
using trace::OpClass;
using trace::RecordKind;

constexpr CopyShape kStream1{RecordKind::CopyH2D, 0, false, 1};
constexpr CopyShape kStream2{RecordKind::CopyH2D, 0, false, 2};

class UnobservedTest : public ::testing::Test, public RunBuilder {
 protected:
  uint32_t main_ = thread("main");
};

TEST_F(UnobservedTest, DeviceTimeIsNotClaimed) {
  cuda(main_, OpClass::Launch, us(0), us(5), kStream1);
  call(main_, OpClass::LoaderNext, us(100), us(900));
  cuda(main_, OpClass::Launch, us(950), us(955), kStream1);
  const RankAttribution row = attribute(0, {us(1000)});
  EXPECT_FALSE(row.device_observed);
  EXPECT_EQ(row.time(Category::DeviceUnobserved), us(1000));
}

TEST_F(UnobservedTest, AfterASynchronisationTheDeviceIsEmpty) {
  cuda(main_, OpClass::Launch, us(0), us(5), kStream1);
  cuda(main_, OpClass::Sync, us(10), us(100), kStream1, "cudaStreamSynchronize");
  call(main_, OpClass::LoaderNext, us(100), us(900));
  cuda(main_, OpClass::Launch, us(950), us(955), kStream1);
  const RankAttribution row = attribute(0, {us(1000)});
  EXPECT_EQ(row.time(Category::InputUnknown), us(800));
  EXPECT_EQ(row.time(Category::LaunchDispatch), us(50));
  EXPECT_EQ(row.time(Category::DeviceUnobserved), us(150));
}

TEST_F(UnobservedTest, ASynchronisationOfOneOfTwoStreamsProvesNothing) {
  cuda(main_, OpClass::Launch, us(0), us(5), kStream1);
  cuda(main_, OpClass::Launch, us(5), us(10), kStream2);
  cuda(main_, OpClass::Sync, us(10), us(100), kStream1, "cudaStreamSynchronize");
  call(main_, OpClass::LoaderNext, us(100), us(900));
  cuda(main_, OpClass::Launch, us(950), us(955), kStream1);
  EXPECT_EQ(attribute(0, {us(1000)}).time(Category::DeviceUnobserved), us(1000));
}

TEST_F(UnobservedTest, ADeviceSynchronisationCoversAllStreams) {
  cuda(main_, OpClass::Launch, us(0), us(5), kStream1);
  cuda(main_, OpClass::Launch, us(5), us(10), kStream2);
  call(main_, OpClass::Sync, us(10), us(100), "cudaDeviceSynchronize");
  call(main_, OpClass::LoaderNext, us(100), us(900));
  cuda(main_, OpClass::Launch, us(900), us(955), kStream1);
  EXPECT_EQ(attribute(0, {us(1000)}).time(Category::InputUnknown), us(800));
}

}  // namespace
}  // namespace gpuwatch
