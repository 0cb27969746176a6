// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/pipeline_work.h"

#include <gtest/gtest.h>

namespace gpuwatch::model {
namespace {

constexpr Ns kMs = 1'000'000;
constexpr uint32_t kLoader = 7;

struct Counts {
  const char* name;
  uint32_t feeds;
  uint64_t elements, bytes_produced, bytes_consumed;
  Ns processing_ns;
};

void read_at(Process& process, Ns time, std::initializer_list<Counts> stages) {
  uint32_t number = 0;
  for (const Counts& stage : stages)
    process.stage_readings.push_back({time, kLoader, number++, stage.feeds, stage.name, stage.elements,
                                      stage.bytes_produced, stage.bytes_consumed, stage.processing_ns});
}

// Batches of 4 samples of 100 bytes in 20 ms. A repeat made the first map anew not long ago: it has worked on
// 6 samples, 3 ms each; the second one takes 1 ms for each of them.
Process repeating() {
  Process process;
  read_at(process, 100 * kMs,
          {{"Root", 0, 10, 4000, 4000, 0},
           {"MapAndBatch", 0, 10, 4000, 4000, 40 * kMs},
           {"ShuffleAndRepeat", 1, 40, 4000, 4000, 0},
           {"ParallelMapV2", 2, 30, 3000, 300, 90 * kMs}});
  read_at(process, 1100 * kMs,
          {{"Root", 0, 60, 24000, 24000, 0},
           {"MapAndBatch", 0, 60, 24000, 24000, 240 * kMs},
           {"ShuffleAndRepeat", 1, 240, 24000, 24000, 0},
           {"ParallelMapV2", 2, 6, 600, 60, 18 * kMs}});
  return process;
}

TEST(PipelineWork, OfABatchHoldsWhereARepeatBeganAnew) {
  const auto work = pipeline_work(repeating(), kLoader, {0, 2000 * kMs});
  ASSERT_TRUE(work);
  EXPECT_DOUBLE_EQ(work->batch_ns, 20 * kMs);
  ASSERT_EQ(work->stages.size(), 4u);
  EXPECT_DOUBLE_EQ(work->stages[1].busy_ns, 4 * kMs);
  EXPECT_DOUBLE_EQ(work->stages[3].elements, 4);
  EXPECT_DOUBLE_EQ(work->stages[3].busy_ns, 12 * kMs);
  EXPECT_DOUBLE_EQ(work->cores(), 0.8);
}

TEST(PipelineWork, NeedsTwoReadingsOfOneIterator) {
  Process process = repeating();
  EXPECT_FALSE(pipeline_work(process, kLoader, {500 * kMs, 2000 * kMs}));
  EXPECT_FALSE(pipeline_work(process, kLoader + 1, {0, 2000 * kMs}));
  for (StageReading& reading : process.stage_readings)
    if (reading.time > 500 * kMs) reading.elements = 5;  // of the next epoch's
  EXPECT_FALSE(pipeline_work(process, kLoader, {0, 2000 * kMs}));
}

TEST(PipelineWork, IsNotBelievedOfADamagedTrace) {
  Process process = repeating();
  for (StageReading& reading : process.stage_readings) reading.feeds = 99;
  EXPECT_FALSE(pipeline_work(process, kLoader, {0, 2000 * kMs}));
  process.stage_readings.clear();
  for (const Ns time : {100 * kMs, 200 * kMs})  // no end of stages, all in a row
    for (uint32_t stage = 0; stage < 100'000; ++stage)
      process.stage_readings.push_back(
          {time, kLoader, stage, stage ? stage - 1 : 0, "Map", uint64_t(time), 1, 1, 1});
  EXPECT_FALSE(pipeline_work(process, kLoader, {0, 2000 * kMs}));
  process.stage_readings.clear();
  for (const Ns time : {100 * kMs, 200 * kMs})  // each takes 1e19 elements for one
    for (uint32_t stage = 0; stage < 40; ++stage)
      process.stage_readings.push_back(
          {time, kLoader, stage, stage ? stage - 1 : 0, "Map", stage ? ~0ull : uint64_t(time), 1, ~0ull, 1});
  EXPECT_FALSE(pipeline_work(process, kLoader, {0, 2000 * kMs}));
}

// What the readers of an interleave make is what it hands on, however many of them are alive.
TEST(PipelineWork, OfAnInterleaveIsItsReaders) {
  Process process;
  for (const uint64_t batches : {10, 20})
    read_at(process, Ns(batches) * 10 * kMs,
            {{"Root", 0, batches, batches * 800, batches * 800, 0},
             {"Batch", 0, batches, batches * 800, batches * 800, 0},
             {"ParallelInterleaveV4", 1, batches * 8, batches * 800, batches * 900, 0},
             {"FromTensorSlices", 2, 3, 60, 0, 0},
             {"TFRecord", 2, 5, 500, 0, 10 * kMs}});
  const auto work = pipeline_work(process, kLoader, {0, 1000 * kMs});
  ASSERT_TRUE(work);
  EXPECT_DOUBLE_EQ(work->stages[4].elements, 8);
  EXPECT_DOUBLE_EQ(work->stages[4].busy_ns, 16 * kMs);
}

TEST(PipelineWork, TellsWhatAStageAddsToItsInput) {
  Process process;
  for (const uint64_t batches : {10, 20})
    read_at(process, Ns(batches) * 10 * kMs,
            {{"Root", 0, batches, batches * 900, batches * 900, 0},
             {"PaddedBatchV2", 0, batches, batches * 900, batches * 300 + batches / 20, 0},
             {"ParallelMapV2", 1, batches * 4, batches * 300 + batches / 20, 0, 0}});
  const auto work = pipeline_work(process, kLoader, {0, 1000 * kMs});
  ASSERT_TRUE(work);
  EXPECT_DOUBLE_EQ(work->stages[1].bytes_out, 900);
  EXPECT_NEAR(work->stages[1].bytes_in, 300, 1);
  EXPECT_TRUE(work->stages[1].is_one_size);
  EXPECT_FALSE(work->stages[2].is_one_size);
}

}  // namespace
}  // namespace gpuwatch::model
