// SPDX-License-Identifier: Apache-2.0
// The recorder's clocks. `ticks` is what hot records carry: the TSC where the kernel trusts it, else
// CLOCK_MONOTONIC nanoseconds. Measured on a virtual Xeon: rdtsc 10 ns, clock_gettime 20 ns; a call is timed
// twice, so this is half of a record's cost.
// Thread safety: any, after choose_tick_source(). Signal safety: yes (the vDSO takes no lock).
#pragma once

#include <time.h>
#include <x86intrin.h>

#include <cstdint>

namespace gpuwatch::base {

inline uint64_t clock_ns(clockid_t clock) noexcept {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000ull + static_cast<uint64_t>(t.tv_nsec);
}
inline uint64_t monotonic_ns() noexcept {
  return clock_ns(CLOCK_MONOTONIC);
}
inline uint64_t realtime_ns() noexcept {
  return clock_ns(CLOCK_REALTIME);
}
inline uint64_t thread_cpu_ns() noexcept {
  return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

extern constinit bool g_ticks_are_tsc;
extern constinit uint64_t g_ticks_per_ms;  // rough, for thresholds; exact rates come from clock samples

inline uint64_t ticks() noexcept {
  return g_ticks_are_tsc ? __rdtsc() : monotonic_ns();
}
inline uint64_t ticks_of_ns(uint64_t ns) noexcept {
  return ns * g_ticks_per_ms / 1000000;
}
inline uint64_t ns_of_ticks(uint64_t ticks) noexcept {
  return ticks / g_ticks_per_ms * 1000000 + ticks % g_ticks_per_ms * 1000000 / g_ticks_per_ms;
}

// Called once, when recording starts: TSC if CPUID says it is invariant and the kernel keeps time by it.
void choose_tick_source() noexcept;

// Remembers a reading of both clocks as early as possible (the constructor), so that the rate is known
// precisely by the time recording starts. About 80 ns.
void note_process_start() noexcept;
struct ClockPair {
  uint64_t ticks;
  uint64_t monotonic_ns;
  uint64_t bracket_ns;  // half width: the error of the pair
};
ClockPair process_start() noexcept;

}  // namespace gpuwatch::base
