// SPDX-License-Identifier: Apache-2.0
// What the control group of this process allows: CPU quota, how long it was throttled, memory limit. Versions
// 1 and 2, on the host and inside containers, where the path that the kernel names may not exist below the
// mount. Thread safety: find() once, then any. Errors: what cannot be read is "no limit".
#pragma once

#include <cstdint>

namespace gpuwatch::context {

struct CpuLimit {
  uint64_t quota_us = 0;  // CPU time per period; 0: no limit
  uint64_t period_us = 0;
  char stat_path[512] = {};  // cpu.stat of the level that holds the tightest quota; empty without a limit
  bool is_version_2 = false;
};

// The tightest quota from this process's group up to the root.
void find_cpu_limit(CpuLimit* limit) noexcept;

// Total time that runnable threads were held back by the quota.
uint64_t read_throttled_ns(const CpuLimit& limit) noexcept;

uint64_t read_memory_limit_bytes() noexcept;  // 0: no limit

}  // namespace gpuwatch::context
