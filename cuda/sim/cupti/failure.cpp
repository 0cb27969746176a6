// SPDX-License-Identifier: Apache-2.0
#include "failure.h"

#include <atomic>

#include "core/config.h"

namespace gpuwatch::sim {

CUptiResult next_call_result() {
  static std::atomic<int> calls{0};
  const Config& c = config();
  if (c.cupti_fail_after < 0 || calls.fetch_add(1) < c.cupti_fail_after) return CUPTI_SUCCESS;
  return static_cast<CUptiResult>(c.cupti_fail_code);
}

}  // namespace gpuwatch::sim
