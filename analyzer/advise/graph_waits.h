// SPDX-License-Identifier: Apache-2.0
// Waits of the host for the GPU between the launches of a step. A CUDA graph cannot hold them, whether they
// cost time or not: while a stream is captured, a synchronization, a copy to the host that waits and cudaFree
// are errors (CUDA C++ Programming Guide, "Prohibited and Unhandled Operations"), and torch.compile ends its
// graph there. A capture can leave outside, so that they do not count: waits before the first or after the
// last launches of a step, those in few of the steps (evaluation, logging), and those of copies to the
// device, whose data do not depend on the step's launches. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "analyzer/advise/launch_sources.h"
#include "analyzer/advise/sync_places.h"

namespace gpuwatch::advise {

struct GraphWaits {
  std::vector<SyncPlace> in_step;  // no graph of the whole step holds them; the most frequent first
  // Of these, what torch.compile(model) meets: between the model's launches by one thread. The backward pass
  // is another graph, and a GradScaler reads after it.
  std::vector<SyncPlace> in_model;
};

// Those that are left in `assumed_streams`, in most steps. `left_alone`: what the compiler leaves as it is.
// Requires `input.streams` and `device`.
GraphWaits graph_waits(const RuleInput& input, const std::vector<LaunchSource>& left_alone);

// Of these places, those where mostly one of these launches is the last one before the wait.
std::vector<SyncPlace> places_after(const RuleInput& input, std::vector<SyncPlace> places,
                                    const predict::EventFilter& launches);

// "at train.py:12 and train.py:40"; where no line is known, "in cudaStreamSynchronize". Of at least one.
std::string places_words(const RuleInput& input, const std::vector<SyncPlace>& places);

// On either side of a wait that divides a step; before it without the optimizer's launches.
inline constexpr double kLeastGraphLaunches = 4;  // a step
inline constexpr double kLeastGraphPart = 0.10;   // of the step's launches

}  // namespace gpuwatch::advise
