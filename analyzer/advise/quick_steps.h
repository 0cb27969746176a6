// SPDX-License-Identifier: Apache-2.0
// How quick the steps of a run can be: what an upper bound starts from. A mean step is slowed by what the
// bound removes: input code that runs on the same cores, and takes the caches and the memory bandwidth from
// training. Measured on programs whose input was replaced: a step without it took 0.3 to 0.9 of the mean
// step's rest. The rest of the quickest hundredth of the steps is a bound of that for 15 programs of 17, of
// the quickest twentieth for 12; for the other two it is 1.1 and 1.2 times too long. Training threads that
// sleep through every fetch are slow in all steps (ceiling.h). Pure functions.
#pragma once

#include "analyzer/attribute/attribution.h"

namespace gpuwatch::advise {

// Of the time that steps spend outside `removed`: the quickest hundredth (of fewer than 100 steps, the
// quickest), divided by the mean; of a run of fewer than 20 steps the mean. Waiting for a core need not
// remain: what is removed has the core, and of a fetch of 400 ms on the training thread attribution counts it
// outside of the input. A ZIP that was opened for each sample was "up to 7.1x" of a step that became 46 times
// as short.
//
// Where the bytes of its batch say how long a step takes, each is held against steps with batches like its
// own: the quickest have the shortest texts, and no change gives those to all steps. Texts batched by length
// waited 8% of a step for data, "up to 2.9x".
double quick_part(const model::Process& process, const attribute::RankAttribution& rank,
                  attribute::Group removed);
// The same of whole steps.
double quick_part(const model::Process& process, const attribute::RankAttribution& rank);

// The steps' part of what they, evaluations and checkpoints take together.
double part_of_steps(const model::Process& process, const attribute::RankAttribution& rank);

}  // namespace gpuwatch::advise
