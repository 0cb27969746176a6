// SPDX-License-Identifier: Apache-2.0
// The stage of a tf.data pipeline that works longest, and the user's line that made it. TensorFlow rewrites a
// pipeline before it runs (batch and map become MapAndBatch, a map becomes parallel, a prefetch is added):
// its stages and those that the program wrote are told apart by their kind and order. Pure.
#pragma once

#include <string>

#include "analyzer/model/pipeline_work.h"
#include "analyzer/model/run.h"

namespace gpuwatch::advise {

// Whether an epoch may get what the stage made in the first one. A cache behind a shuffle keeps its order for
// good, and one behind a repeat never fills. Whether the stage itself is random is not known.
enum class Caching { kNever, kAfterIt, kBeforeShuffle };

struct CostlyStage {
  std::string name;      // "MapAndBatch"
  std::string words;     // "the map", as the program writes it
  std::string location;  // "train.py:12"; empty: not known
  double busy_ns = 0;    // for a batch
  Caching caching = Caching::kNever;
  bool is_map_of_samples = false;  // could work on whole batches
};

CostlyStage costly_stage(const model::Loader& loader, const model::PipelineWork& work);

}  // namespace gpuwatch::advise
