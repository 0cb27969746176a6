// SPDX-License-Identifier: Apache-2.0
// What workers cost in a job that was recorded without any: nothing of it was seen, so each cost follows from
// what it depends on (tensors and bytes of a batch, size of the process, start method, first batch) with the
// range in which it lies on the machines that were measured. Nanoseconds; pure functions.
#pragma once

#include <vector>

#include "analyzer/model/run.h"
#include "analyzer/predict/loader_replay.h"

namespace gpuwatch::predict {

HandOver assume_hand_over(const model::Process& process,
                          const std::vector<const model::LoaderEpoch*>& epochs);

// Starts and ends of workers of a loader whose recorded epochs had none.
Restart assume_restart(const model::Process& process, uint32_t loader);

// What other computing costs the fetches and the training of a recording in which they took turns.
double assumed_company_loss();

// How much training that spins on several cores loses beside workers that were not seen (Scheduling).
double assumed_spinning_power();

// The spread of the replayed step under what is not known about workers that were not seen: each unknown at
// either end, and all together. They are independent, so they do not all fall to one side: their distances
// from the expected value add up as errors do.
Estimate unseen_range(const LoaderReplayInput& recording, const LoaderSetting& setting, double expected_ms);

}  // namespace gpuwatch::predict
