// SPDX-License-Identifier: Apache-2.0
// A CUPTI that gives up: after `cupti_fail_after` calls, or `cupti_fail_at_ms` after loading, every further
// one returns `cupti_fail_code` and does nothing. Counted are the functions that set something up, change or
// flush it. Any thread.
#pragma once

#include <cupti.h>

namespace gpuwatch::sim {

// CUPTI_SUCCESS, or what this call has to return.
CUptiResult next_call_result();

}  // namespace gpuwatch::sim

#define GWSIM_MAY_FAIL() \
  if (const CUptiResult failure = gpuwatch::sim::next_call_result(); failure != CUPTI_SUCCESS) return failure
