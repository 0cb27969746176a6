// SPDX-License-Identifier: Apache-2.0
// What is said of training without workers by a run that had more of them than cores.
#include <gtest/gtest.h>

#include "analyzer/predict/loader_replay.h"

namespace gpuwatch::predict {
namespace {

constexpr LoaderSetting kNone{.workers = 0};

// Two epochs of 100 batches of 3 ms, with 4 ms of training; one in 20 took half as long, while no other
// process had the cores.
LoaderReplayInput recorded(int workers) {
  LoaderReplayInput recording;
  recording.cores = 2;
  recording.setting = {.workers = workers};
  recording.hand_over.measured = true;
  for (const bool is_first : {true, false}) {
    ReplayEpoch epoch{.lead_ns = 30e6, .is_counted = true, .is_first = is_first, .is_whole = true};
    for (size_t i = 0; i < 100; ++i) {
      const double part = i % 20 == 0 ? 0.5 : 1;
      epoch.batches.push_back({.service_ns = part * 3e6, .cpu_ns = part * 3e6, .think_ns = part * 4e6});
    }
    recording.epochs.push_back(epoch);
  }
  return recording;
}

TEST(WithoutWorkers, NothingIsKnownOfWhatACrowdCost) {
  const Estimate crowded = replay_estimate(recorded(8), kNone), roomy = replay_estimate(recorded(2), kNone);
  EXPECT_NEAR(crowded.expected, roomy.expected, 1e-6);
  EXPECT_NEAR(crowded.low, 3.5, 0.1) << "each step may be as the quickest ones";
  EXPECT_GT(roomy.low, 6);
  EXPECT_GT(replay_estimate(recorded(8), {.workers = 1}).low, 3.9) << "training and a worker side by side";
}

// Two of them on two cores, which training wants both: poses of objects were said to gain 1.6 times and
// gained 2.1. One leaves training a core to itself.
TEST(WithoutWorkers, NothingIsKnownOfWhatTrainingOnAllCoresCostThem) {
  const auto low_of = [](int workers, double think_cores, double cores = 2) {
    LoaderReplayInput recording = recorded(workers);
    recording.cores = cores;
    recording.think_cores = think_cores;
    recording.think_cores_known = true;
    return replay_estimate(recording, kNone).low;
  };
  EXPECT_NEAR(low_of(2, 2), 3.5, 0.1);
  EXPECT_GT(low_of(1, 2), 5);
  EXPECT_GT(low_of(2, 1), 5);
  EXPECT_GT(low_of(2, 1, 1.9), 5) << "others have a tenth of a core, and training is no crowd";
}

TEST(WithoutWorkers, NoIndicesAreHandedOutAhead) {
  LoaderReplayInput without = recorded(8), with = without;
  for (ReplayEpoch& epoch : without.epochs) epoch.lead_ns = 0;
  EXPECT_EQ(replay(with, kNone).step_ms, replay(without, kNone).step_ms);
  EXPECT_GT(replay(with, {.workers = 1}).step_ms, replay(without, {.workers = 1}).step_ms);
}

}  // namespace
}  // namespace gpuwatch::predict
