// SPDX-License-Identifier: Apache-2.0
// How much a simulated epoch has to look at. It must depend on the number of batches alone: a damaged trace
// has times of any length.
#include <gtest/gtest.h>

#include <random>

#include "analyzer/predict/loader_simulation.h"

namespace gpuwatch::predict {
namespace {

// What a batch is made of ends once each, and a core that ran dry looks at others at most three times after
// each.
constexpr size_t kMostMoments = 32;  // of a batch

// From nothing to the longest time that a trace can claim, a year.
double any_ns(std::mt19937& random) {
  constexpr double kTimes[] = {0, 1, 100, 1e4, 1e6, 4e6, 1e9, 3.6e16};
  return kTimes[random() % std::size(kTimes)];
}

LoaderReplayInput any_recording(std::mt19937& random) {
  LoaderReplayInput recording;
  ReplayEpoch& epoch = recording.epochs.emplace_back();
  epoch.lead_ns = any_ns(random);
  for (int i = 0; i < 60; ++i) {
    BatchCost& batch = epoch.batches.emplace_back();
    batch.service_ns = any_ns(random);
    batch.cpu_ns = random() % 2 ? batch.service_ns : 0;
    batch.think_ns = any_ns(random);
    batch.send_ns = any_ns(random);
    batch.pin_ns = any_ns(random);
  }
  HandOver& hand_over = recording.hand_over;
  for (double* cost : {&hand_over.dispatch_ns, &hand_over.turnaround_ns, &hand_over.take_ns,
                       &hand_over.finish_ns, &recording.restart.come_up_ns})
    *cost = any_ns(random);
  hand_over.busy_factor = random() % 2 ? 1 : 1000;
  hand_over.measured = random() % 2;
  recording.cores = 1 + random() % 3;
  recording.think_cores = random() % 3;
  recording.scheduling.looks = int(random() % (kMostLooks + 1));
  return recording;
}

TEST(EpochSimulation, LooksAtAFewMomentsForEachBatchWhateverTheirLength) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    const LoaderReplayInput recording = any_recording(random);
    LoaderSetting setting;
    setting.workers = int(random() % 6);
    setting.prefetch_factor = 1 + int(random() % 3);
    setting.in_order = random() % 4 > 0;
    setting.pin = random() % 3 == 0;
    Totals totals;
    const ReplayEpoch& epoch = recording.epochs.front();
    EpochSimulation(recording, epoch, setting).run(totals);
    EXPECT_LE(totals.moments, kMostMoments * epoch.batches.size()) << "seed " << seed;
    EXPECT_GT(totals.moments, epoch.batches.size()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace gpuwatch::predict
