// SPDX-License-Identifier: Apache-2.0
// What a rank's communication with the others costs it, and what a change of it can gain. Pure functions.
#pragma once

#include <string_view>

#include "analyzer/advise/rule.h"
#include "analyzer/attribute/device_work.h"

namespace gpuwatch::advise {

// What is waiting for ranks that come later, of the step's time: no change of the communication itself
// shortens it. 0 where the other ranks' steps are not known.
double waiting_for_ranks(const RuleInput& input);

// What a collective does, by the name that NCCL gives its kernel or, RCCL having one name for all, by its
// call.
enum class CollectiveKind { kAllReduce, kReduceScatter, kAllGather, kExchange, kUnknown };
CollectiveKind collective_kind(std::string_view name);
constexpr bool reduces_gradients(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter;
}

// Of the step, collectives that no compute hides, without waiting for ranks that come later.
double exposed_share(const RuleInput& input, const attribute::Communication& communication);

// Of an exchange on the host (Gloo, MPI). With the waiting goes what it takes from computing: copies of each
// gradient into a bucket and back on the training thread, and the cores and caches of the threads that send
// and add. That is at most as much again: each byte of a copy is also sent, received and added. Two ranks
// waited 29% of a step, a bound of 1.4 times; without three of four exchanges they took 1.6 and 1.9 times
// less.
double ceiling_without_exchange(const RuleInput& input, double waiting);

// Neither hiding nor shortening collectives removes more of the step than what is exposed, nor the rest of
// the device's work.
double ceiling_without_communication(const RuleInput& input, double exposed);

}  // namespace gpuwatch::advise
