// SPDX-License-Identifier: Apache-2.0
// What the control group of this process allows and has spent: CPU quota and throttling, memory limit and
// use, and where its pressure is told. Versions 1, 2 and both at once (hybrid), on the host and inside
// containers, where the path that the kernel names may not exist below the mount. Limits hold from the own
// group up to the root, so each level is looked at. Thread safety: find once, then any. Errors: what cannot
// be read is "no limit".
#pragma once

#include <cstddef>
#include <cstdint>

#include "libinject/machine/roots.h"

namespace gpuwatch::machine {

// "1", "2", "1 and 2" (hybrid) or "none".
const char* cgroup_version(const Roots& roots) noexcept;

struct CpuLimit {
  uint64_t quota_us = 0;  // CPU time per period; 0: no limit
  uint64_t period_us = 0;
  KeptPath stat_path;  // cpu.stat of the level that holds the tightest quota; empty without a limit
  bool is_version_2 = false;
};

// The tightest quota from this process's group up to the root.
void find_cpu_limit(const Roots& roots, CpuLimit* limit) noexcept;

struct Throttling {
  uint64_t time_ns = 0;  // that runnable threads were held back by the quota
  uint64_t periods = 0;  // in which that happened
};
Throttling read_throttling(const CpuLimit& limit) noexcept;

// Levels with a memory limit, the innermost first. Four: more than container runtimes nest.
struct MemoryLimit {
  static constexpr size_t kLevels = 4;
  struct Level {
    KeptPath directory;
    uint64_t bytes = 0;
  };
  Level levels[kLevels];
  size_t count = 0;
  uint64_t tightest_bytes = 0;  // 0: no limit
  bool is_version_2 = false;
};
void find_memory_limit(const Roots& roots, MemoryLimit* limit) noexcept;

// What may still be allocated before the limit: the limit less what is used and cannot be dropped (the page
// cache that is not in use can). UINT64_MAX: no limit.
uint64_t read_memory_below_limit(const MemoryLimit& limit) noexcept;

// The version 2 directory that this process's group has, for its *.pressure files; false when there is none.
bool find_pressure_directory(const Roots& roots, FilePath* directory) noexcept;

}  // namespace gpuwatch::machine
