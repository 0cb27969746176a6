// SPDX-License-Identifier: Apache-2.0
// How much faster or slower the processor was at some times of a recording than at others: where it shares
// its cores with other virtual machines, or its clock with its own heat, the same work takes more CPU time
// for seconds on end, and no counter of the machine says so. Another run meets other times. Pure functions.
#pragma once

#include "analyzer/predict/loader_replay.h"

namespace gpuwatch::predict {

// Standard deviation of the CPU time of a batch over the run, or of training's between two where batches
// hardly compute, as a share of its mean: of what lies between stretches of the run, without what batches
// differ by within each of them. 0 where the recording is too short to tell, or nothing in it computes.
double speed_drift(const LoaderReplayInput& recording);

// The recording with everything that computes taking so many times as long.
LoaderReplayInput at_speed(const LoaderReplayInput& recording, double factor);

}  // namespace gpuwatch::predict
