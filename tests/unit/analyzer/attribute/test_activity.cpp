// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>

#include "analyzer/attribute/activity.h"

namespace gpuwatch {
namespace {

using attribute::Activity;
using attribute::View;
using model::HostCall;
using model::kNone;
using trace::OpClass;

HostCall call(OpClass op_class, model::Ns begin, model::Ns end) {
  HostCall result{};
  result.begin = begin;
  result.end = end;
  result.op_class = op_class;
  return result;
}

TEST(Activity, NoCallsAreOneStretchOfOwnCode) {
  const Activity activity({}, View::kLaunching);
  ASSERT_EQ(activity.size(), 1u);
  EXPECT_EQ(activity.at(0).call, kNone);
  EXPECT_EQ(activity.at(0).end, attribute::kEndOfTime);
}

TEST(Activity, TheOutermostCallWithAMeaningDecides) {
  const std::vector<HostCall> calls = {call(OpClass::LoaderNext, 10, 50), call(OpClass::Poll, 20, 40)};
  const Activity activity(calls, View::kLaunching);
  EXPECT_EQ(activity.at(30).call, 0u);
  EXPECT_EQ(activity.at(30).begin, 10);
  EXPECT_EQ(activity.at(30).end, 50);
}

TEST(Activity, StepsAndRangesAreTransparent) {
  const std::vector<HostCall> calls = {call(OpClass::OptimizerStep, 0, 100), call(OpClass::Range, 10, 90),
                                       call(OpClass::Launch, 20, 30)};
  const Activity activity(calls, View::kLaunching);
  EXPECT_EQ(activity.at(5).call, kNone);
  EXPECT_EQ(activity.at(25).call, 2u);
  EXPECT_EQ(activity.at(15).begin, attribute::kBeginOfTime);
}

TEST(Activity, GarbageCollectionShowsThrough) {
  const std::vector<HostCall> calls = {call(OpClass::LoaderNext, 0, 100),
                                       call(OpClass::GarbageCollection, 40, 60)};
  const Activity activity(calls, View::kLaunching);
  EXPECT_EQ(activity.at(50).call, 1u);
  EXPECT_EQ(activity.at(60).call, 0u);
}

TEST(Activity, LoadingLooksInsideTheBatch) {
  const std::vector<HostCall> calls = {call(OpClass::LoaderNext, 0, 100), call(OpClass::Fetch, 10, 90),
                                       call(OpClass::Read, 20, 30), call(OpClass::Sleep, 40, 50),
                                       call(OpClass::Collate, 60, 80)};
  const Activity activity(calls, View::kLoading);
  EXPECT_EQ(activity.at(5).call, kNone);
  EXPECT_EQ(activity.at(25).call, 2u);
  EXPECT_EQ(activity.at(45).call, 3u);
  EXPECT_EQ(activity.at(70).call, 4u);
  EXPECT_EQ(activity.at(85).call, 1u);
}

TEST(Activity, AnInnerCallThatEndsTooLateIsCut) {
  const std::vector<HostCall> calls = {call(OpClass::Sync, 0, 10), call(OpClass::GarbageCollection, 5, 12),
                                       call(OpClass::Launch, 11, 15)};
  const Activity activity(calls, View::kLaunching);
  EXPECT_EQ(activity.at(9).call, 1u);
  EXPECT_EQ(activity.at(10).call, kNone);
  EXPECT_EQ(activity.at(11).call, 2u);
}

}  // namespace
}  // namespace gpuwatch
