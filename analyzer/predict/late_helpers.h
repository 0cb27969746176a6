// SPDX-License-Identifier: Apache-2.0
// The threads that help the training thread (OpenMP's) fall asleep while it waits for a batch. On a virtual
// machine whose other cores are idle the scheduler wakes them up on the training thread's own core, where the
// two wait for each other in turn until it moves one of them. Measured on two cores: a step of 4.3 ms on two
// threads takes 11.7 after a sleep of 40 ms, of which the training thread waits 3.2 ms for its core and the
// helper 3.7; after 10 ms of sleep, or 40 ms of computing, it takes 4.3; on one thread 5.3 and 6.7.
//
// So a training thread that waited for its core though others were idle, and has helpers, computes faster
// where it no longer sleeps so long. Nanoseconds; pure functions.
#pragma once

#include "analyzer/predict/loader_replay.h"

namespace gpuwatch::predict {

// How far helpers are asleep after the training thread slept so long: 0 (none) to 1 (all).
double helpers_asleep(double slept_ns);

// Fills in late_helpers_share from think_delay_share and what else the recording knows.
void find_late_helpers(LoaderReplayInput& recording);

// The consumer's work after `batch` was taken, which took it so long a sleep.
double think_after(const LoaderReplayInput& recording, const BatchCost& batch, double slept_ns);

}  // namespace gpuwatch::predict
