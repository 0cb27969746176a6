// SPDX-License-Identifier: Apache-2.0
#include "failure.h"

#include <atomic>

#include "core/config.h"

namespace gpuwatch::sim {

namespace {
const Ns g_loaded_ns = now_ns();
}

CUptiResult next_call_result() {
  static std::atomic<int> calls{0};
  const Config& c = config();
  const bool is_late = c.cupti_fail_at_ns >= 0 && now_ns() - g_loaded_ns >= c.cupti_fail_at_ns;
  const bool is_many = c.cupti_fail_after >= 0 && calls.fetch_add(1) >= c.cupti_fail_after;
  if (!is_late && !is_many) return CUPTI_SUCCESS;
  return static_cast<CUptiResult>(c.cupti_fail_code);
}

}  // namespace gpuwatch::sim
