// SPDX-License-Identifier: Apache-2.0
// The data workers of this process and its other children, as procfs sees them. A worker that has ended is
// dropped. Thread safety: watch() from any thread; read_workers() by one thread at a time. A forked child
// starts with none.
#pragma once

#include <sys/time.h>

#include <cstdint>

#include "libinject/machine/roots.h"

namespace gpuwatch::context {

inline uint64_t as_ns(const timeval& time) noexcept {
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_usec) * 1000;
}

struct WorkerSums {
  uint64_t cpu_ns = 0;        // user and system, of all their threads
  uint64_t system_ns = 0;     // of it, in the kernel
  uint64_t minor_faults = 0;  // pages that they were given without I/O
  uint64_t run_delay_ns = 0;  // runnable and waiting for a CPU, of their main threads
  uint32_t threads = 0;
  uint32_t workers = 0;
};
WorkerSums read_workers(const machine::Roots& roots) noexcept;

// CPU time of the live processes that this one started from its main thread or the calling one, other than
// workers, and of those that these started: a loader of the job's own, environments of reinforcement
// learning. At most 64; a reading that leaves out some is counted. 0 where the kernel does not list children
// (CONFIG_PROC_CHILDREN).
uint64_t read_other_children_cpu_ns(const machine::Roots& roots) noexcept;

// CPU time of the children of either kind that have ended and were waited for, and of theirs. Those that
// another process started (the start method forkserver) are not among them.
uint64_t read_ended_children_cpu_ns() noexcept;

// CPU time, faults, run delay and threads of one process, added to `sums`; false when it is gone.
bool add_process(const machine::Roots& roots, uint32_t pid, WorkerSums* sums) noexcept;

}  // namespace gpuwatch::context
