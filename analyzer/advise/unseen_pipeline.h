// SPDX-License-Identifier: Apache-2.0
// A loader whose own threads work in the training process, and are not recorded: tf.data, Keras' PyDataset.
// What training waits for is known, and of tf.data how long its stages work. Where they leave training no
// free core, or Python code of the pipeline holds the GIL, training computes more slowly by it. Pure
// functions.
#pragma once

#include <algorithm>
#include <optional>

#include "analyzer/advise/rule.h"
#include "analyzer/model/pipeline_work.h"

namespace gpuwatch::advise {

struct UnseenPipeline {
  double wait_share = 0;  // of the steps: for data
  double gil_share = 0;   // and for the GIL, where the pipeline has Python code, which holds it
  bool runs_python = false;
  double cores = 0;                           // that the job uses, 0 if not known
  bool fills_cores = false;                   // while training computes
  bool leaves_no_core = false;                // on average less than one is free, and a quarter
  std::optional<model::PipelineWork> work{};  // nullopt: not known

  // Below XProf's lower band nothing waits.
  static constexpr double kLeastWait = 0.05;
  bool holds_gil() const { return gil_share >= kLeastWait; }
  // CPU cores that the stages take. They are at work on work->cores() threads, some of which wait for a core
  // as training's do: each gets its share of the cores that the job uses. Training works on one at least.
  double work_cores() const {
    if (!work || cores <= 0) return 0;
    const double threads = work->cores(), of_training = std::max(cores - threads, 1 - wait_share);
    return cores * threads / (threads + of_training);
  }
  static constexpr double kBusyCores = 0.75;
  // Less is no more than a run differs from the next one.
  static constexpr double kLeastWork = 0.15;
  bool competes() const { return leaves_no_core && work_cores() >= kLeastWork * cores; }
  // Then more threads of the pipeline gain nothing: cheaper work in it does.
  bool is_at_its_limit() const { return fills_cores || holds_gil() || competes(); }
};

// nullopt: the loader that feeds the steps is recorded, or there is none.
std::optional<UnseenPipeline> unseen_pipeline(const RuleInput& input);

// If the pipeline took no time. Where its work is known, training then has all of the cores for what the job
// used without it. Else, on full cores, it has at most as many threads at work as there are cores, so that
// training, which waits for the slowest of its own, has at least half of each: without a pipeline it may
// compute in half of the time.
double ceiling_without_pipeline(const RuleInput& input, const UnseenPipeline& pipeline);

// If it only ran on all of the cores: the CPU work of a step stays.
double ceiling_on_all_cores(const RuleInput& input, const UnseenPipeline& pipeline);

}  // namespace gpuwatch::advise
