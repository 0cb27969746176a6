// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "analyzer/attribute/cpu_contention.h"

namespace gpuwatch::attribute {
namespace {

using model::Batch;
using model::Ns;
using model::TimeSpan;

// Two workers whose fetches use `cpu_ns` of CPU time and delay, and a consumer that takes their batches.
model::Process process_with(std::vector<Batch> batches, uint32_t cpus) {
  model::Process process;
  process.cpu_count = cpus;
  process.loaders.resize(1);
  model::LoaderEpoch& epoch = process.epochs.emplace_back();
  epoch.workers.resize(2);
  epoch.batches = std::move(batches);
  return process;
}

Batch fetched(uint32_t worker, TimeSpan fetch, TimeSpan next, Ns cpu_ns, Ns delay_ns) {
  Batch batch;
  batch.worker = worker;
  batch.fetch = fetch;
  batch.next = next;
  batch.fetch_cpu_ns = cpu_ns;
  batch.fetch_run_delay_ns = delay_ns;
  return batch;
}

TEST(CpuContention, DelayGrowsWhereMoreWantACpuThanThereAre) {
  // Both workers from 0 to 1000, the consumer from 400 to 600: two, then three, on two CPUs.
  const CpuContention contention(process_with(
      {fetched(0, {0, 1000}, {100, 400}, 600, 400), fetched(1, {0, 1000}, {600, 900}, 900, 100)}, 2));
  EXPECT_EQ(contention.until(400), 0);
  EXPECT_NEAR(contention.until(550), 50, 1);  // a third of the time
  EXPECT_NEAR(contention.until(600), 66, 1);
  EXPECT_EQ(contention.until(5000), contention.until(600));
  EXPECT_EQ(contention.until(-5), 0);
}

TEST(CpuContention, WhoSleepsWantsNoCpu) {
  // The second worker is on a CPU for a quarter of its fetch: 1.25 on one.
  const CpuContention contention(
      process_with({fetched(0, {0, 1000}, {}, 1000, 0), fetched(1, {0, 1000}, {}, 200, 50)}, 1));
  EXPECT_NEAR(contention.until(1000), 200, 1);
}

TEST(CpuContention, AJobWithoutWorkersHasNone) {
  const CpuContention contention(process_with({fetched(model::kNone, {0, 1000}, {0, 1100}, 1000, 0)}, 1));
  EXPECT_EQ(contention.until(2000), 0);
}

}  // namespace
}  // namespace gpuwatch::attribute
