// SPDX-License-Identifier: Apache-2.0
// Resources that a thread used while it fetched a batch: CPU time, run-queue delay, major page faults,
// input. All from the clocks and counters of the thread itself.
//
// Overhead: two readings of the thread's CPU clock (0.2 us each), and 5 us more for faults, blocks read from
// storage, run-queue delay and thread count, which take system calls and files in /proc. That is too much
// for a fetch of a few microseconds: they are read only on threads whose last fetch took more than 1 ms, and
// are 0 otherwise.
//
// Thread safety: any. Signal safety: none (the run-queue delay's file).
#pragma once

#include <cstdint>

#include "hooks/libc/io_counts.h"
#include "libinject/trace/trace_generated.h"

namespace gpuwatch::hooks::python {

class ThreadUsage {
 public:
  struct Amounts {
    trace::CpuDetail cpu;
    trace::IoCounts io;
  };
  ThreadUsage() noexcept;  // begins
  Amounts since() const noexcept;

 private:
  struct FaultsAndBlocks {
    uint32_t major_faults = 0;
    uint32_t blocks_read = 0;  // of 512 bytes
  };
  static FaultsAndBlocks faults_and_blocks() noexcept;
  trace::IoCounts input_since(uint32_t blocks_read) const noexcept;

  bool reads_slow_counters_;
  uint64_t wall_ns_;
  uint64_t run_delay_ns_ = 0;
  uint64_t cpu_ns_;
  FaultsAndBlocks faults_and_blocks_;
  libc::IoTotals input_;
};

}  // namespace gpuwatch::hooks::python
