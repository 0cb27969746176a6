// SPDX-License-Identifier: Apache-2.0
// Where one training step ends and the next begins, without a marker in the script: by the optimizer's steps,
// then NVTX ranges that the job has anyway, then the loader, then the recurring launch sequence.
#pragma once

#include <string>
#include <vector>

#include "analyzer/model/run.h"

namespace gpuwatch::model {

// The operation that records where a model is told to evaluate (hooks/python/python.def).
inline constexpr const char* kModuleEval = "Module.eval";

// A first step of more than so many times the median is warm-up: it starts workers, loads kernels. A first
// epoch's start is never that small.
inline constexpr double kWarmUpFactor = 2;

struct Step {
  Ns begin = 0;
  Ns end = 0;
  uint32_t batches = 0;         // batches the consumer took within it (gradient accumulation: more than one)
  bool is_warm_up = false;      // not part of the recorded mean: first steps, iterator construction
  bool is_interrupted = false;  // nor this: a pause overlaps it
  bool is_recorded() const { return !is_warm_up && !is_interrupted; }
};

// Time in which nothing trained and nothing of the job was in the way: a person or the system stopped it.
struct Pause {
  enum class Kind {
    kPrompt,   // in an event loop or at a prompt: a notebook between two cells, a debugger
    kStopped,  // the process did not run
  };
  TimeSpan time;
  Kind kind = Kind::kPrompt;
};

// Steps tile the recorded span of training: step[i].end == step[i+1].begin within a phase.
struct StepSeries {
  // "profiler" (of an imported trace), "optimizer", "nvtx", "loader", "launches", "trace" (all of an imported
  // one), "" when none were found
  std::string source;
  std::vector<Step> steps;
  double samples_per_step = 0;  // 0 unknown
  // What the job itself reported as such; in order, disjoint.
  std::vector<TimeSpan> evaluations, checkpoints;
  std::vector<Pause> pauses;  // in order, disjoint
  TimeSpan span() const {
    return steps.empty() ? TimeSpan{} : TimeSpan{steps.front().begin, steps.back().end};
  }
};

StepSeries find_steps(const Run& run, const Process& process);

}  // namespace gpuwatch::model
