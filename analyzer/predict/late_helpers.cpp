// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/late_helpers.h"

#include <algorithm>

namespace gpuwatch::predict {
namespace {

// Steps were slow after 15 ms of sleep in one case of five, after 20 in half, after 40 in all.
constexpr double kAwakeNs = 10e6, kAsleepNs = 40e6;
// Each of the two waits while the other has the core: the helper, whose own waiting is not recorded, as long
// as the training thread (3.7 and 3.2 ms, 1.8 and 1.7, 2.9 and 2.6).
constexpr double kBothWait = 2;
constexpr double kMostLost = 0.75;

}  // namespace

double helpers_asleep(double slept_ns) {
  return std::clamp((slept_ns - kAwakeNs) / (kAsleepNs - kAwakeNs), 0.0, 1.0);
}

void find_late_helpers(LoaderReplayInput& recording) {
  if (recording.think_delay_share <= 0 || recording.idle_cores <= 0) return;
  if (!recording.think_cores_known || recording.think_cores <= 1) return;
  double all_ns = 0, after_sleep_ns = 0;
  for (const ReplayEpoch& epoch : recording.epochs) {
    for (const BatchCost& batch : epoch.batches) {
      if (!batch.counted) continue;
      all_ns += batch.think_ns;
      after_sleep_ns += batch.think_ns * helpers_asleep(batch.slept_ns);
    }
  }
  if (after_sleep_ns <= 0) return;
  const double lost_ns = kBothWait * recording.think_delay_share * all_ns;
  recording.late_helpers_share = std::min(lost_ns / after_sleep_ns, kMostLost);
}

double think_after(const LoaderReplayInput& recording, const BatchCost& batch, double slept_ns) {
  const double woken = helpers_asleep(batch.slept_ns) - helpers_asleep(slept_ns);
  return batch.think_ns * (1 - recording.late_helpers_share * std::max(0.0, woken));
}

}  // namespace gpuwatch::predict
