// SPDX-License-Identifier: Apache-2.0
// The stage of a tf.data pipeline that works longest, and the user's line that made it. TensorFlow rewrites a
// pipeline before it runs (batch and map become MapAndBatch, a map becomes parallel, a prefetch is added):
// its stages and those that the program wrote are told apart by their kind and order. Pure.
#pragma once

#include <string>

#include "analyzer/model/pipeline_work.h"
#include "analyzer/model/run.h"

namespace gpuwatch::advise {

struct CostlyStage {
  std::string name;      // "MapAndBatch"
  std::string location;  // "train.py:12"; empty: not known
  double busy_ns = 0;    // for a batch
};

CostlyStage costly_stage(const model::Loader& loader, const model::PipelineWork& work);

}  // namespace gpuwatch::advise
