// SPDX-License-Identifier: Apache-2.0
#include "analyzer/page/slices.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace gpuwatch::page {
namespace {

using model::Ns;

Lane lane_of(size_t count, Ns length, Ns gap) {
  Lane lane;
  for (size_t i = 0; i < count; ++i) {
    const Ns begin = Ns(i) * (length + gap);
    lane.slices.push_back({.begin = begin, .end = begin + length, .name = uint32_t(i)});
  }
  return lane;
}

TEST(Slices, FewStayAsTheyAre) {
  std::vector<Lane> lanes = {lane_of(100, 10, 5)};
  reduce(lanes, 100);
  EXPECT_EQ(lanes[0].slices.size(), 100u);
  EXPECT_EQ(lanes[0].drawn_together, 0);
}

TEST(Slices, ShortOnesAreDrawnTogetherAndCounted) {
  Lane lane = lane_of(10000, 900, 100);
  lane.slices[5000].end += 10'000'000;  // a long one in the middle
  for (size_t i = 5001; i < lane.slices.size(); ++i) {
    lane.slices[i].begin += 10'000'000;
    lane.slices[i].end += 10'000'000;
  }
  std::vector<Lane> lanes = {lane};
  reduce(lanes, 100);
  size_t count = 0;
  Ns covered = 0;
  for (const Slice& slice : lanes[0].slices) {
    count += slice.count;
    covered += slice.covered;
    EXPECT_TRUE(slice.count == 1 || slice.covered <= slice.end - slice.begin);
  }
  EXPECT_LE(lanes[0].slices.size(), 100u);
  EXPECT_EQ(count, 10000u);
  EXPECT_EQ(covered, 10000 * 900 + 10'000'000);
  EXPECT_GT(lanes[0].drawn_together, 900);
  EXPECT_TRUE(std::ranges::any_of(lanes[0].slices, [](const Slice& slice) {
    return slice.count == 1 && slice.end - slice.begin > 10'000'000;
  }));
}

TEST(Slices, LanesWithFewLeaveTheirPartToTheOthers) {
  std::vector<Lane> lanes = {lane_of(10, 900, 100), lane_of(900, 900, 100), lane_of(5000, 900, 100)};
  reduce(lanes, 2000);
  EXPECT_EQ(lanes[0].slices.size(), 10u);
  EXPECT_EQ(lanes[1].slices.size(), 900u);
  EXPECT_LE(lanes[2].slices.size(), 1090u);
}

TEST(Slices, CallsNest) {
  Lane lane;
  for (const auto& [begin, end] : {std::pair<Ns, Ns>{0, 100}, {10, 50}, {20, 30}, {60, 70}, {100, 110}})
    lane.slices.push_back({.begin = begin, .end = end});
  nest(lane);
  std::vector<uint32_t> depths;
  for (const Slice& slice : lane.slices) depths.push_back(slice.depth);
  EXPECT_EQ(depths, (std::vector<uint32_t>{0, 1, 2, 1, 0}));
}

TEST(Slices, AreShortInJson) {
  Lane lane{.name = "stream 7"};
  lane.slices = {{.begin = 110, .end = 120, .name = 3, .tone = attribute::Bottleneck::Copy},
                 {.begin = 130, .end = 150, .name = 4, .count = 5, .covered = 12}};
  EXPECT_EQ(json(lane, 100)["slices"].dump(), "[[10,10,3,0,2],[30,20,4,0,7,5,12]]");
}

}  // namespace
}  // namespace gpuwatch::page
