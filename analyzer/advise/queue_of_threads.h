// SPDX-License-Identifier: Apache-2.0
// The queue between the script's own loader threads and training. Pure functions.
#pragma once

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

// Of the time of loader threads: with less they wait themselves, for room in the queue or for something that
// more of them would wait for, too.
inline constexpr double kBusyProducers = 0.9;

// Training waits most for threads that sleep, or wait for storage or a server: the GIL is free.
bool makers_wait(const RuleInput& input);

// As many as training needs; 0: no more than there are, or more of them would gain nothing. Threads that
// compute in Python take turns at the GIL. What runs in C without it is not seen: then `input-own-code`
// proposes processes.
int threads_wanted(const RuleInput& input);

// In the mean they make the data as fast as training takes it, and are idle in between: a longer queue hides
// the slow batches, and more threads are not needed.
bool is_queue_too_short(const RuleInput& input);

}  // namespace gpuwatch::advise
