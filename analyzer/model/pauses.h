// SPDX-License-Identifier: Apache-2.0
// Time of the training thread that is no training, whatever surrounds it: a notebook between two cells, a
// debugger's prompt, a process that was stopped. Pure functions; nanoseconds.
#pragma once

#include <vector>

#include "analyzer/model/run.h"
#include "analyzer/model/steps.h"

namespace gpuwatch::model {

// In time order, disjoint. `steps`: as found without regard to pauses; a pause is long against them.
std::vector<Pause> find_pauses(const Run& run, const Process& process, const std::vector<Step>& steps);

// Marks the steps that a pause overlaps.
void mark_interrupted(const std::vector<Pause>& pauses, std::vector<Step>& steps);

}  // namespace gpuwatch::model
