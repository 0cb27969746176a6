// SPDX-License-Identifier: Apache-2.0
// What TensorFlow 2.21 says of a pipeline: range, map, shuffle, interleave of two readers, map and batch.
#include <gtest/gtest.h>

#include <string>

#include "hooks/tensorflow/pipeline_text.h"

namespace gpuwatch::hooks::tensorflow {
namespace {

std::string node(const char* name, int id, int elements, const char* inputs) {
  const std::string number = std::to_string(elements);
  return std::string(name) + "(id:" + std::to_string(id) + "):\n  autotune=1\n  buffered_bytes=3\n" +
         "  buffered_elements=1\n  bytes_consumed=" + number + "5\n  bytes_produced=" + number +
         "4\n  processing_time=" + number + "000\n  num_elements=" + number + "\n  inputs={" + inputs + "}\n";
}

std::string pipeline() {
  return node("Root", 1, 50, "MapAndBatch(id:2),") +
         node("MapAndBatch", 2, 53, "ParallelInterleaveV4(id:3),") +
         node("ParallelInterleaveV4", 3, 216, "Shuffle(id:4),FiniteRepeat(id:7),FiniteRepeat(id:8),") +
         node("Shuffle", 4, 116, "Map(id:5),") + node("Map", 5, 215, "Range(id:6),") +
         node("Range", 6, 215, "") + node("FiniteRepeat", 7, 20, "") + node("FiniteRepeat", 8, 30, "");
}

TEST(PipelineText, EachStageFeedsAnother) {
  const std::string text = pipeline();
  StageCounts stages[16];
  const Pipeline read = read_pipeline(text.data(), text.size(), stages, 16);
  ASSERT_EQ(read.stages, 7u);
  EXPECT_TRUE(read.is_whole);
  const char* const names[] = {"Root", "MapAndBatch", "ParallelInterleaveV4", "Shuffle",
                               "Map",  "Range",       "FiniteRepeat"};
  const uint32_t feeds[] = {0, 0, 1, 2, 3, 4, 2};
  for (size_t i = 0; i < 7; ++i) {
    EXPECT_STREQ(stages[i].name, names[i]);
    EXPECT_EQ(stages[i].feeds, feeds[i]) << names[i];
  }
  EXPECT_EQ(stages[1].elements, 53u);
  EXPECT_EQ(stages[1].processing_ns, 53000u);
  EXPECT_EQ(stages[1].bytes_produced, 534u);
  EXPECT_EQ(stages[1].bytes_consumed, 535u);
  EXPECT_EQ(stages[1].bytes_held, 3u);
  EXPECT_EQ(stages[6].elements, 50u) << "both readers";
}

TEST(PipelineText, KeepsWithinItsBounds) {
  const std::string text = pipeline();
  StageCounts stages[3];
  EXPECT_EQ(read_pipeline(text.data(), text.size(), stages, 3).stages, 3u);
  EXPECT_FALSE(read_pipeline(text.data(), text.size(), stages, 3).is_whole);
  for (size_t cut = 0; cut < text.size(); ++cut)
    EXPECT_LE(read_pipeline(text.data(), cut, stages, 3).stages, 3u);
  std::string many = "Root(id:1):\n  inputs={";
  for (int id = 2; id < 2000; ++id) many += "Reader(id:" + std::to_string(id) + "),";
  many += "}\n";
  for (int id = 2; id < 2000; ++id) many += node("Reader", id, 1, "");
  EXPECT_EQ(read_pipeline(many.data(), many.size(), stages, 3).stages, 2u);
  EXPECT_FALSE(read_pipeline(many.data(), many.size(), stages, 3).is_whole) << "readers beyond the 256th";
  EXPECT_EQ(read_pipeline("nothing", 7, stages, 3).stages, 0u);
}

}  // namespace
}  // namespace gpuwatch::hooks::tensorflow
