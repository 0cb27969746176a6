// SPDX-License-Identifier: Apache-2.0
// What a training process does beside its steps: start-up, evaluation, saving, the change of an epoch. Pure
// functions; nanoseconds.
#pragma once

#include <string_view>
#include <vector>

#include "analyzer/model/run.h"
#include "analyzer/model/steps.h"

namespace gpuwatch::model {

enum class PhaseKind {
  kStartup,      // from the start of the process to the first step that is no warm-up
  kEvaluation,   // a loader is read and no optimizer steps, or the job says so (an NVTX range)
  kCheckpoint,   // in a checkpoint's call, or the job says so; may lie inside a step
  kEpochChange,  // the training loader's iterator is made or reset; lies inside a step
};

constexpr std::string_view name_of(PhaseKind kind) {
  switch (kind) {
    case PhaseKind::kStartup:
      return "startup";
    case PhaseKind::kEvaluation:
      return "evaluation";
    case PhaseKind::kCheckpoint:
      return "checkpoint";
    case PhaseKind::kEpochChange:
      break;
  }
  return "epoch_change";
}

struct Phase {
  PhaseKind kind;
  TimeSpan time;
};

// In order of their begin. Empty where there are no steps. Evaluations are what find_steps() cut out of the
// steps, and what follows the last step: a step holds none of them.
std::vector<Phase> find_phases(const Process& process, const StepSeries& series);

// From the end of start-up to the end of the last step or phase: the run without what precedes and follows
// training.
TimeSpan training_span(const StepSeries& series, const std::vector<Phase>& phases);

// Of an evaluation, without the checkpoints that were written in it.
Ns total(const std::vector<Phase>& phases, PhaseKind kind);

// Evaluations, and checkpoints that no step holds.
Ns beside_steps(const StepSeries& series, const std::vector<Phase>& phases);

}  // namespace gpuwatch::model
