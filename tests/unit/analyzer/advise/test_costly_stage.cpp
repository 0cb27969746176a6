// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/costly_stage.h"

#include <gtest/gtest.h>

namespace gpuwatch::advise {
namespace {

// What runs of "Prefetch < Batch < Map < Repeat < Shuffle < Map < Slices".
model::PipelineWork running() {
  return {.batch_ns = 20e6,
          .stages = {{.name = "Root", .feeds = 0, .elements = 1, .busy_ns = 0},
                     {.name = "Prefetch", .feeds = 0, .elements = 1, .busy_ns = 1e6},
                     {.name = "MapAndBatch", .feeds = 1, .elements = 1, .busy_ns = 4e6},
                     {.name = "ShuffleAndRepeat", .feeds = 2, .elements = 4, .busy_ns = 0},
                     {.name = "ParallelMapV2", .feeds = 3, .elements = 4, .busy_ns = 12e6}}};
}

model::Loader written(const char* stages, const char* lines) {
  model::Loader loader;
  loader.framework = "tf.data";
  loader.dataset = stages;
  loader.stages = lines;
  return loader;
}

TEST(CostlyStage, HasTheLineOfTheStageThatTheProgramWrote) {
  const model::Loader loader = written("Prefetch < Batch < Map < Repeat < Shuffle < Map < TensorSlice",
                                       "a.py:7\na.py:6\na.py:5\na.py:4\na.py:3\na.py:2\na.py:1\n");
  const CostlyStage stage = costly_stage(loader, running());
  EXPECT_EQ(stage.name, "ParallelMapV2");
  EXPECT_EQ(stage.words, "the map");
  EXPECT_EQ(stage.location, "a.py:2");
  EXPECT_EQ(stage.busy_ns, 12e6);
}

TEST(CostlyStage, HasNoLineWhereOneOfSeveralIsGone) {
  EXPECT_EQ(costly_stage(written("Prefetch < Batch < Map < TensorSlice", "a.py:4\na.py:3\na.py:2\na.py:1\n"),
                         running())
                .location,
            "");
  const model::Loader before_cache = written("Batch < Map < Map < Cache < Map < TensorSlice",
                                             "a.py:6\na.py:5\na.py:4\na.py:3\na.py:2\na.py:1\n");
  EXPECT_EQ(costly_stage(before_cache, running()).location, "a.py:4")
      << "what is before a full cache runs no more";
}

// What the readers of an interleave do is written in its function.
TEST(CostlyStage, OfAReaderIsTheInterleave) {
  model::PipelineWork work = running();
  work.stages[4].name = "ParallelInterleaveV4";
  work.stages.push_back({.name = "TFRecord", .feeds = 4, .elements = 4, .busy_ns = 50e6});
  const model::Loader loader =
      written("Batch < Map < ParallelInterleave < TensorSlice", "a.py:4\na.py:3\na.py:2\na.py:1\n");
  EXPECT_EQ(costly_stage(loader, work).name, "TFRecord");
  EXPECT_EQ(costly_stage(loader, work).location, "a.py:2");
}

// tf_ad_records.py and tf_photos.py of tests/abroad shuffle before they decode: cached after the map, all
// epochs had the order of the first.
TEST(CostlyStage, IsCachedWhereNoOrderIsKept) {
  model::PipelineWork work;
  work.stages = {{.name = "Root", .feeds = 0, .elements = 1},
                 {.name = "ParallelMapV2", .feeds = 0, .elements = 1, .busy_ns = 9e6}};
  const auto stage_of = [&](const char* stages) {
    return costly_stage(written(stages, "a.py:6\na.py:5\na.py:4\na.py:3\na.py:2\na.py:1\n"), work);
  };
  EXPECT_EQ(stage_of("Batch < Shuffle < Map < TFRecordDatasetV2").caching, Caching::kAfterIt);
  EXPECT_EQ(stage_of("Batch < Map < Shuffle < TFRecordDatasetV2").caching, Caching::kBeforeShuffle);
  EXPECT_EQ(stage_of("Map < Batch < Shuffle < TFRecordDatasetV2").caching, Caching::kNever)
      << "whole batches";
  EXPECT_EQ(stage_of("Map < Batch < TFRecordDatasetV2").caching, Caching::kAfterIt);
  EXPECT_EQ(stage_of("Batch < Map < Repeat < TFRecordDatasetV2").caching, Caching::kNever) << "never fills";
  EXPECT_EQ(stage_of("Batch < Cache < Map < TFRecordDatasetV2").caching, Caching::kNever) << "is cached";
  EXPECT_EQ(stage_of("Batch < Map < Map < TFRecordDatasetV2").caching, Caching::kNever) << "which of two?";
  EXPECT_TRUE(stage_of("Batch < Map < TFRecordDatasetV2").is_map_of_samples);
  EXPECT_FALSE(stage_of("Map < Batch < TFRecordDatasetV2").is_map_of_samples);
}

}  // namespace
}  // namespace gpuwatch::advise
