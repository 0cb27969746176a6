// SPDX-License-Identifier: Apache-2.0
#include "libinject/base/clock.h"

#include <cpuid.h>

#include "libinject/base/syscall.h"

namespace gpuwatch::base {

constinit bool g_ticks_are_tsc = false;
constinit uint64_t g_ticks_per_ms = 1000000;

namespace {

constinit uint64_t g_start_tsc = 0;
constinit uint64_t g_start_monotonic_ns = 0;
constinit uint64_t g_start_bracket_ns = 0;

bool tsc_is_invariant() noexcept {
  unsigned a, b, c, d;
  if (!__get_cpuid(0x80000007, &a, &b, &c, &d)) return false;
  return d & (1u << 8);
}

// Invariant is not enough: on a host whose TSCs disagree between sockets the kernel switches
// to another source.
bool kernel_keeps_time_by_tsc() noexcept {
  char name[16];
  const ssize_t n =
      read_file("/sys/devices/system/clocksource/clocksource0/current_clocksource", name, sizeof name);
  return n >= 3 && name[0] == 't' && name[1] == 's' && name[2] == 'c';
}

}  // namespace

void note_process_start() noexcept {
  // The first reading in a process faults the vDSO's page in (10 us): it is thrown away.
  monotonic_ns();
  const uint64_t before = monotonic_ns();
  g_start_tsc = __rdtsc();
  const uint64_t after = monotonic_ns();
  g_start_monotonic_ns = before + (after - before) / 2;
  g_start_bracket_ns = (after - before) / 2;
}

ClockPair process_start() noexcept {
  return {g_ticks_are_tsc ? g_start_tsc : g_start_monotonic_ns, g_start_monotonic_ns, g_start_bracket_ns};
}

void choose_tick_source() noexcept {
  if (!tsc_is_invariant() || !kernel_keeps_time_by_tsc()) return;
  // Thresholds need the rate to a per cent or so: at least 0.2 ms between the two readings, waited for only
  // in the rare process that starts recording that early.
  uint64_t tsc, now;
  do {
    tsc = __rdtsc();
    now = monotonic_ns();
  } while (now - g_start_monotonic_ns < 200000);
  const unsigned __int128 elapsed = static_cast<unsigned __int128>(tsc - g_start_tsc) * 1000000;
  const uint64_t rate = static_cast<uint64_t>(elapsed / (now - g_start_monotonic_ns));
  if (rate == 0) return;
  g_ticks_per_ms = rate;
  g_ticks_are_tsc = true;
}

}  // namespace gpuwatch::base
