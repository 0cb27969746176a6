// SPDX-License-Identifier: Apache-2.0
// Where the host waits for the GPU. Calls that block one after the other, with nothing launched in between,
// wait for the same work: without the first, the second waits as long. So they are one place, and only a
// change of all of them gains anything. Pure functions; nanoseconds and bytes.
#pragma once

#include <string>
#include <vector>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

struct SyncPlace {
  struct Function {
    uint16_t operation;
    uint32_t thread, call;  // its longest wait
    model::Ns longest;
  };
  std::vector<Function> functions;  // those that wait, each once, in the order of the program
  std::vector<uint64_t> members;    // all waits: thread and call, sorted
  size_t times = 0, steps = 0;      // how often the host waits here, and in how many steps
  double waited_ns = 0;
  double bytes = 0;      // copied to the host by these calls
  bool is_free = false;  // cudaFree and the like, which wait for the GPU as well
};

// Without those that belong to a pageable H2D copy or to a checkpoint. Requires `input.streams` and `device`.
std::vector<SyncPlace> sync_places(const RuleInput& input);

// The host waits after every fourth launch or more often, as with CUDA_LAUNCH_BLOCKING=1: the queue is empty
// at each.
inline constexpr double kWaitsLikeBlocking = 0.25;
bool waits_like_blocking(const RuleInput& input);

// The calls of all these places.
predict::EventFilter waits_at(const std::vector<SyncPlace>& places);

// "cudaMemcpyAsync and cudaStreamSynchronize", each once.
std::string functions_of(const RuleInput& input, const std::vector<SyncPlace>& places);

// The line of the script, by whichever of the functions it was recorded with; else of the longest wait.
std::string location_of(const RuleInput& input, const SyncPlace& place);

}  // namespace gpuwatch::advise
