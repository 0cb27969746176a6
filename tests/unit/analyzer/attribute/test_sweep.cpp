// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "analyzer/attribute/sweep.h"

namespace gpuwatch {
namespace {

using attribute::Category;
using attribute::DeviceSegment;
using model::DeviceOp;
using model::Ns;
using trace::RecordKind;

DeviceOp op(RecordKind kind, Ns begin, Ns end, uint32_t kernel = 0) {
  DeviceOp result{};
  result.kind = kind;
  result.begin = begin;
  result.end = end;
  result.kernel = kernel;
  return result;
}

std::vector<model::Kernel> kernels() {
  std::vector<model::Kernel> result(2);
  result[1].is_communication = true;
  return result;
}

TEST(Sweep, EmptyTimelineIsOneGap) {
  const auto segments = attribute::sweep({}, {}, {5, 9});
  ASSERT_EQ(segments.size(), 1u);
  EXPECT_TRUE(segments[0].idle);
  EXPECT_EQ(segments[0].begin, 5);
  EXPECT_EQ(segments[0].end, 9);
  EXPECT_EQ(segments[0].operation, model::kNone);
}

TEST(Sweep, ComputeHidesCommunicationAndCopies) {
  const std::vector<DeviceOp> operations = {op(RecordKind::Kernel, 0, 50, 1), op(RecordKind::Kernel, 10, 20),
                                            op(RecordKind::CopyH2D, 15, 70)};
  std::map<Category, Ns> times;
  for (const DeviceSegment& segment : attribute::sweep(operations, kernels(), {0, 70})) {
    times[segment.category] += segment.end - segment.begin;
  }
  EXPECT_EQ(times, (std::map<Category, Ns>{
                       {Category::Compute, 10}, {Category::CommUnsplit, 40}, {Category::CopyH2D, 20}}));
}

TEST(Sweep, AGapKnowsItsNeighbours) {
  const std::vector<DeviceOp> operations = {op(RecordKind::Kernel, 0, 30), op(RecordKind::CopyH2D, 2, 4),
                                            op(RecordKind::Kernel, 40, 50)};
  const auto segments = attribute::sweep(operations, kernels(), {0, 60});
  ASSERT_EQ(segments.size(), 4u);
  EXPECT_TRUE(segments[1].idle);
  EXPECT_EQ(segments[1].previous, 0u);
  EXPECT_EQ(segments[1].operation, 2u);
  EXPECT_TRUE(segments[3].idle);
  EXPECT_EQ(segments[3].previous, 2u);
  EXPECT_EQ(segments[3].operation, model::kNone);
}

TEST(Sweep, SynchronisationRecordsAreNotDeviceWork) {
  const std::vector<DeviceOp> operations = {op(RecordKind::DeviceSync, 0, 10),
                                            op(RecordKind::Overhead, 3, 9)};
  EXPECT_TRUE(attribute::sweep(operations, {}, {0, 10}).front().idle);
}

// An independent reference: the state at each nanosecond, by looking at all operations.
Category state_at(const std::vector<DeviceOp>& operations, Ns time, bool& idle) {
  int best = 5;
  for (const DeviceOp& o : operations) {
    if (time < o.begin || time >= o.end) continue;
    int rank = 5;
    if (o.kind == RecordKind::Kernel) rank = o.kernel;
    if (o.kind == RecordKind::GraphRun) rank = 0;
    if (o.kind == RecordKind::CopyH2D) rank = 2;
    if (o.kind == RecordKind::CopyD2H) rank = 3;
    if (o.kind == RecordKind::CopyD2D || o.kind == RecordKind::Memset || o.kind == RecordKind::CopyOther)
      rank = 4;
    best = std::min(best, rank);
  }
  idle = best == 5;
  const Category states[] = {Category::Compute, Category::CommUnsplit, Category::CopyH2D,
                             Category::CopyD2H, Category::CopyD2D,     Category::Unknown};
  return states[best];
}

TEST(Sweep, AgreesWithLookingAtEachNanosecond) {
  const RecordKind kinds[] = {RecordKind::Kernel,   RecordKind::CopyH2D,   RecordKind::CopyD2H,
                              RecordKind::CopyD2D,  RecordKind::Memset,    RecordKind::GraphRun,
                              RecordKind::Overhead, RecordKind::CopyOther, RecordKind::DeviceSync};
  for (unsigned seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    std::vector<DeviceOp> operations;
    const int count = static_cast<int>(random() % 14);
    for (int i = 0; i < count; ++i) {
      const Ns begin = static_cast<Ns>(random() % 90) - 10;
      operations.push_back(op(kinds[random() % std::size(kinds)], begin,
                              begin + static_cast<Ns>(random() % 25), static_cast<uint32_t>(random() % 2)));
    }
    std::stable_sort(operations.begin(), operations.end(),
                     [](const DeviceOp& a, const DeviceOp& b) { return a.begin < b.begin; });
    const model::TimeSpan window{static_cast<Ns>(random() % 20), 60 + static_cast<Ns>(random() % 60)};
    Ns time = window.begin;
    for (const DeviceSegment& segment : attribute::sweep(operations, kernels(), window)) {
      ASSERT_EQ(segment.begin, time) << "seed " << seed;
      ASSERT_GT(segment.end, segment.begin) << "seed " << seed;
      for (; time < segment.end; ++time) {
        bool idle = false;
        const Category expected = state_at(operations, time, idle);
        ASSERT_EQ(segment.idle, idle) << "seed " << seed << " at " << time;
        ASSERT_TRUE(idle || segment.category == expected) << "seed " << seed << " at " << time;
      }
      if (segment.idle && segment.operation != model::kNone) {
        ASSERT_EQ(operations[segment.operation].begin, segment.end) << "seed " << seed;
      }
      if (segment.idle && segment.previous != model::kNone && segment.begin > window.begin) {
        ASSERT_EQ(operations[segment.previous].end, segment.begin) << "seed " << seed;
      }
    }
    ASSERT_EQ(time, window.end) << "seed " << seed;
  }
}

}  // namespace
}  // namespace gpuwatch
