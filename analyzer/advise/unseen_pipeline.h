// SPDX-License-Identifier: Apache-2.0
// A loader whose own threads work in the training process, and are not recorded: tf.data, Keras' PyDataset.
// What training waits for is known, not what the pipeline computes meanwhile: where the job fills its cores,
// or Python code of the pipeline holds the GIL, training computes more slowly by it. Pure functions.
#pragma once

#include <optional>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

struct UnseenPipeline {
  double wait_share = 0;     // of the steps: for data
  double gil_share = 0;      // and for the GIL, where the pipeline has Python code, which holds it
  double cores = 0;          // that the job uses, 0 if not known
  bool fills_cores = false;  // while training computes

  // Below XProf's lower band nothing waits.
  static constexpr double kLeastWait = 0.05;
  bool holds_gil() const { return gil_share >= kLeastWait; }
  // Then more threads of the pipeline gain nothing: cheaper work in it does.
  bool is_at_its_limit() const { return fills_cores || holds_gil(); }
};

// nullopt: the loader that feeds the steps is recorded, or there is none.
std::optional<UnseenPipeline> unseen_pipeline(const RuleInput& input);

// If the pipeline took no time. On full cores it has at most as many threads at work as there are cores, so
// that training, which waits for the slowest of its own, has at least half of each: without a pipeline it may
// compute in half of the time.
double ceiling_without_pipeline(const RuleInput& input, const UnseenPipeline& pipeline);

// If it only ran on all of the cores: the CPU work of a step stays.
double ceiling_on_all_cores(const RuleInput& input, const UnseenPipeline& pipeline);

}  // namespace gpuwatch::advise
