// SPDX-License-Identifier: Apache-2.0
// The queue between the script's own loader threads and training. Pure functions.
#pragma once

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

// Of the time of loader threads: with less they wait themselves, for room in the queue or for something that
// more of them would wait for, too.
inline constexpr double kBusyProducers = 0.9;

// In the mean they make the data as fast as training takes it, and are idle in between: a longer queue hides
// the slow batches, and more threads are not needed.
bool is_queue_too_short(const RuleInput& input);

}  // namespace gpuwatch::advise
