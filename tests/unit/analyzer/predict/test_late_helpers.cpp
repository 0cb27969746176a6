// SPDX-License-Identifier: Apache-2.0
// Figures of one program on two cores, measured at each length of sleep: see late_helpers.h.
#include <gtest/gtest.h>

#include <algorithm>

#include "analyzer/predict/late_helpers.h"

namespace gpuwatch::predict {
namespace {

// 11.9 ms of work after each sleep of 40 ms, of which the training thread waited 3.2 ms for its core.
LoaderReplayInput late(double slept_ms = 40) {
  LoaderReplayInput recording;
  ReplayEpoch epoch;
  BatchCost cost{slept_ms * 1e6, 0, 11.9e6};
  cost.slept_ns = slept_ms * 1e6;
  epoch.batches.assign(200, cost);
  recording.epochs = {epoch};
  recording.cores = 2;
  recording.think_cores = 2;
  recording.think_cores_known = true;
  recording.idle_cores = 1;
  recording.think_delay_share = 3.2 / 11.9;
  find_late_helpers(recording);
  return recording;
}

TEST(LateHelpers, AreAwakeWhereTrainingSleepsLess) {
  const LoaderReplayInput recording = late();
  const BatchCost& batch = recording.epochs[0].batches[0];
  EXPECT_NEAR(think_after(recording, batch, 40e6) / 1e6, 11.9, 1e-6);
  EXPECT_NEAR(think_after(recording, batch, 100e6) / 1e6, 11.9, 1e-6) << "no slower than it was";
  EXPECT_NEAR(think_after(recording, batch, 2e6) / 1e6, 4.3, 1.3) << "measured: 4.3 ms";
  EXPECT_GT(think_after(recording, batch, 20e6), think_after(recording, batch, 2e6));
}

TEST(LateHelpers, MakeTheRecordedRunWhatItWas) {
  const LoaderReplayInput recording = late();
  EXPECT_NEAR(replay(recording, {0, 2, true}).step_ms, 51.9, 1e-6);
  const Estimate many = replay_estimate(recording, {12, 2, true});
  EXPECT_NEAR(many.expected, 5.5, 0.3);
  EXPECT_GE(many.high, 11.8) << "they may be late for another reason";
  const auto said = assumptions(recording, {12, 2, true});
  EXPECT_TRUE(
      std::ranges::any_of(said, [](const std::string& words) { return words.find("asleep") != words.npos; }));
}

TEST(LateHelpers, AreNotSeenWithoutWhatShowsThem) {
  EXPECT_EQ(late(5).late_helpers_share, 0) << "nobody falls asleep in 5 ms";
  const auto share = [](auto change) {
    LoaderReplayInput recording = late();
    recording.late_helpers_share = 0;
    change(recording);
    find_late_helpers(recording);
    return recording.late_helpers_share;
  };
  EXPECT_GT(share([](LoaderReplayInput&) {}), 0);
  EXPECT_EQ(share([](LoaderReplayInput& recording) { recording.think_cores = 1; }), 0) << "no helpers";
  EXPECT_EQ(share([](LoaderReplayInput& recording) { recording.think_cores_known = false; }), 0);
  EXPECT_EQ(share([](LoaderReplayInput& recording) { recording.idle_cores = 0; }), 0) << "no core to move to";
  EXPECT_EQ(share([](LoaderReplayInput& recording) { recording.think_delay_share = 0; }), 0);
}

}  // namespace
}  // namespace gpuwatch::predict
