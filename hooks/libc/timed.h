// SPDX-License-Identifier: Apache-2.0
// What every libc hook does around the real call: nothing while nothing is recorded; else time it, and record
// it if it kept the thread waiting. Internal to hooks/libc; hooks/mpi shares its threshold and its switch.
// The wrappers hold no state of their own, so that a forced unwind (pthread_cancel), a longjmp out of a
// signal handler or the end of the process may leave them at any point: the recorder drops the abandoned
// level at the next leave. They are not noexcept for that reason. errno is the real function's.
#pragma once

#include <cerrno>
#include <cstdint>

#include "hooks/core/operations.h"
#include "hooks/libc/io_counts.h"
#include "hooks/libc/real.h"
#include "libinject/record/recorder.h"

namespace gpuwatch::hooks::libc {

// A shorter call is not recorded. 50 us is several times the cost of a context switch and a wake-up (5 to 20
// us), so a shorter wait was at most a wait for the scheduler; and a thread that only waits writes at most
// 20 000 records, 480 KB, a second.
inline constexpr uint64_t kThresholdNs = 50'000;

// kThresholdNs in ticks; set when recording starts, inherited by forked children.
extern constinit std::atomic<uint64_t> g_threshold_ticks;

// GPUWATCH_TRACE names this source. Written in the constructor only.
extern constinit bool g_is_on;

inline bool is_watching() noexcept {
  return record::is_recording() && g_is_on;
}

// What a hook knows about its call: two registers.
struct Call {
  Op op;
  Outcome outcome;
  Input input;
  uint32_t subject;    // Slot.a
  const void* caller;  // of the hook
};

// Records the call. Cold: a call that gets here blocked for at least the threshold.
void record_wait(const record::Scope& scope, const Call& call, int64_t result) noexcept;

// Out of line, so that the hook itself stays a load, a compare and a jump while nothing is recorded;
// functions of the same type share one instance.
template <class Real, class... Arguments>
[[gnu::noinline]] auto timed(Call call, Real real, Arguments... arguments) {
  const record::Scope scope = record::enter_wait(id(call.op), call.subject);
  const uint64_t io_ticks_before = t_io_totals.io_ticks;
  const auto result = real(arguments...);
  if (GW_UNLIKELY(!scope)) return result;
  const uint64_t ticks = scope.elapsed_ticks();
  if (call.input != Input::kNone) {
    count_input(call.input, io_ticks_before, ticks, static_cast<int64_t>(result),
                call.outcome == Outcome::bytes);
  }
  if (GW_LIKELY(ticks < g_threshold_ticks.load(std::memory_order_relaxed))) {
    record::leave_unrecorded(scope);
  } else {
    record_wait(scope, call, static_cast<int64_t>(result));
  }
  return result;
}

}  // namespace gpuwatch::hooks::libc
