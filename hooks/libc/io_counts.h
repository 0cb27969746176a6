// SPDX-License-Identifier: Apache-2.0
// The input of each thread: totals over its hooked Read, Open, Stat and Receive calls of any length, also of
// those too short to be recorded. A wrapper around a longer call (the fetch of a batch) takes the difference
// of two readings. A call inside another hooked call counts as part of the outer one; our own calls do not
// count, and nothing counts while recording is off. Not seen: stdio's reads of less than
// 4 KiB (fgets), through memory maps, by other threads, by io_uring. Thread safety: each thread has its own
// totals, so the reads of a signal handler count for its thread. Cost: about 1 ns a call.
#pragma once

#include <cstdint>

#include "hooks/core/operations.h"
#include "libinject/base/compiler.h"

namespace gpuwatch::hooks::libc {

struct IoTotals {
  uint64_t bytes_read = 0;  // by calls that succeeded
  uint64_t io_ticks = 0;    // inside the calls; base::ns_of_ticks tells ns
  uint32_t opens = 0;       // files opened; wraps around, as does reads
  uint32_t reads = 0;       // calls that read or received, also at the end of the file
};

extern GW_TLS IoTotals t_io_totals;

inline const IoTotals& io_totals() noexcept {
  return t_io_totals;
}

// How a call adds to the totals: its time, and whether it opened a file.
enum class Input : uint8_t { kNone, kOpen, kOther };

constexpr Input input_of(Op op) noexcept {
  if (!trace::reads_input(class_of(op))) return Input::kNone;
  return class_of(op) == trace::OpClass::Open ? Input::kOpen : Input::kOther;
}

// `ticks_before` are io_ticks as they were when the call began: a nested call has moved them, and has counted
// its bytes, which are the same.
inline void count_input(Input input, uint64_t ticks_before, uint64_t ticks, int64_t result,
                        bool is_bytes) noexcept {
  IoTotals& totals = t_io_totals;
  const bool has_nested = totals.io_ticks != ticks_before;
  totals.io_ticks = ticks_before + ticks;
  if (GW_UNLIKELY(has_nested || result < 0)) return;
  if (is_bytes) {
    totals.bytes_read += static_cast<uint64_t>(result);
    ++totals.reads;
  } else if (input == Input::kOpen) {
    ++totals.opens;
  }
}

}  // namespace gpuwatch::hooks::libc
