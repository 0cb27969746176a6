// SPDX-License-Identifier: Apache-2.0
// The CPU cores that the recorded job had, and what waiting for one did to what was recorded of its fetches
// and its training: the replay gets their undisturbed times, and lets them wait again as its own setting has
// it. Pure functions.
#pragma once

#include <vector>

#include "analyzer/attribute/attribution.h"
#include "analyzer/model/run.h"
#include "analyzer/predict/helper_threads.h"
#include "analyzer/predict/loader_replay.h"

namespace gpuwatch::predict {

// How many times as long fetches took for waiting for a CPU: all of a fetch, and its computing alone.
struct Stretch {
  double of_fetches = 1, of_computing = 1;
};

inline constexpr double kCrowded = 1.1;  // fetches stretched by more waited for a core as a rule

Stretch recorded_stretch(const std::vector<const model::LoaderEpoch*>& epochs);

// Fills in the cores of `recording`, whose epochs hold recorded times, and takes out of these what they
// waited for a core. `code`: what fetches run; `fetch_cores`: cores that fetches alone used over the recorded
// steps, on average.
void undisturb(const model::Process& process, const attribute::RankAttribution& rank,
               const std::vector<const model::LoaderEpoch*>& epochs, const FetchCode& code,
               double fetch_cores, LoaderReplayInput& recording);

}  // namespace gpuwatch::predict
