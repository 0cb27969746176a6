// SPDX-License-Identifier: Apache-2.0
// What a thread used while it fetched a batch: CPU time, time it was runnable but not running, page faults
// that had to read. The clocks and counters of the thread itself; nanoseconds.
//
// Cost: two readings of the thread's CPU clock (0.2 us each), and some 5 us more for faults, run delay and
// thread count, which take system calls and files in /proc. A fetch of a few microseconds must not pay those:
// they are read only on threads whose last fetch took more than 1 ms, and left 0 otherwise.
//
// Thread safety: any. Signal safety: yes.
#pragma once

#include <cstdint>

#include "libinject/trace/trace_generated.h"

namespace gpuwatch::hooks::python {

class ThreadCost {
 public:
  ThreadCost() noexcept;  // begins
  trace::CpuDetail since() const noexcept;

 private:
  bool reads_slow_counters_;
  uint64_t wall_ns_;
  uint64_t run_delay_ns_ = 0;
  uint64_t cpu_ns_;
  uint32_t major_faults_ = 0;
};

}  // namespace gpuwatch::hooks::python
