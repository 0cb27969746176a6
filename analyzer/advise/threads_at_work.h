// SPDX-License-Identifier: Apache-2.0
// Threads that a library of the script started, as a writer of logs has one. Pure functions.
#pragma once

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

// Whether there are any: training waits for cores although the job has them, and uses more CPU time than the
// training thread and its operations can. At most the operations work on all of their threads, the library's
// own lines on one, and helpers while the training thread waits. `in_library`: of the step.
bool has_threads_at_work(const RuleInput& input, double in_library);

// Such a thread wants a core and the GIL, which training has half of each then: the samples see only what the
// training thread does for the library. 27% of a step, predicted as 1.4 times (1.2 to 1.5), gained 6.
double ceiling_without_threads(const RuleInput& input, double in_library);

}  // namespace gpuwatch::advise
