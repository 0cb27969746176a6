// SPDX-License-Identifier: Apache-2.0
// Preloaded into the analyzer: its clock is CLOCK_AHEAD_S seconds ahead, so that a job that hangs seems to
// have hung that long. A hung job records nothing meanwhile, so really waiting would show nothing else. Only
// what asks libc for the time sees it; the kernel's own files (when a process started) stay as they are.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec* time) {
  const int result = (int)syscall(SYS_clock_gettime, clock, time);
  const char* ahead_s = getenv("CLOCK_AHEAD_S");
  if (result == 0 && ahead_s &&
      (clock == CLOCK_MONOTONIC || clock == CLOCK_BOOTTIME || clock == CLOCK_REALTIME))
    time->tv_sec += atoi(ahead_s);
  return result;
}
