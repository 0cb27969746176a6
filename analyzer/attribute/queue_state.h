// SPDX-License-Identifier: Apache-2.0
// When the device certainly had nothing to do, told from the host's calls alone: from the return of a
// synchronisation that covers all work given to it until the next launch. Everything else is not observed.
// Linear in the number of calls, plus a sort. Times in ns.
#pragma once

#include <vector>

#include "analyzer/attribute/process_view.h"

namespace gpuwatch::attribute {

struct EmptyQueue {
  model::TimeSpan time;
  uint32_t thread;  // makes the call that ends it
};

// In time order, disjoint. Empty where the calls carry no streams and no device-wide synchronisation was
// made.
std::vector<EmptyQueue> empty_queues(const ProcessView& view);

}  // namespace gpuwatch::attribute
