// SPDX-License-Identifier: Apache-2.0
// persistent_workers=True keeps the workers of one DataLoader only.
#include <gtest/gtest.h>

#include <vector>

#include "analyzer/predict/restart.h"

namespace gpuwatch::predict {
namespace {

// One epoch for each pid of the first worker. Those of pid 0 were begun and left: Lightning begins each
// twice.
model::Process trained_with(const std::vector<uint32_t>& pids, int persistent_workers = 1) {
  model::Process process;
  process.loaders.resize(1);
  process.loaders[0].persistent_workers = persistent_workers;
  for (const uint32_t pid : pids) {
    model::LoaderEpoch& epoch = process.epochs.emplace_back();
    epoch.workers.resize(2);
    epoch.workers[0].pid = pid;
    epoch.batches.resize(3);
    if (pid == 0) continue;
    for (model::Batch& batch : epoch.batches) {
      batch.next = {1000, 2000};
      batch.received = 1500;
    }
  }
  return process;
}

TEST(KeepsWorkers, OfOneDataLoader) {
  EXPECT_TRUE(keeps_workers(trained_with({7}), 0));
  EXPECT_TRUE(keeps_workers(trained_with({7, 7, 7}), 0));
  EXPECT_FALSE(keeps_workers(trained_with({7, 7, 7}, 0), 0));
}

// hive-sounds of tests/abroad (Lightning's reload_dataloaders_every_n_epochs=1): 1.6 times as fast with one
// DataLoader, and nothing explained why workers started.
TEST(KeepsWorkers, NotWhereEachEpochHasItsOwn) {
  EXPECT_FALSE(keeps_workers(trained_with({7, 8, 9}), 0));
  EXPECT_FALSE(keeps_workers(trained_with({0, 7, 0, 8, 0, 9}), 0));
  EXPECT_TRUE(keeps_workers(trained_with({7, 7, 7, 8, 8, 8}), 0)) << "folds";
}

}  // namespace
}  // namespace gpuwatch::predict
