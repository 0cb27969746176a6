// SPDX-License-Identifier: Apache-2.0
#include "clock.h"

#include <sys/prctl.h>

#include <cerrno>
#include <ctime>

namespace gpuwatch::sim {

namespace {
constexpr Ns kNsPerSecond = 1'000'000'000;
}

Ns now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * kNsPerSecond + t.tv_nsec;
}

void spin_until(Ns deadline_ns) {
  while (now_ns() < deadline_ns) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
}

void sleep_until(Ns deadline_ns, Ns spin_ns) {
  const Ns wake_ns = deadline_ns - spin_ns;
  if (wake_ns > now_ns()) {
    thread_local const int slack_set = prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    (void)slack_set;
    const timespec wake{wake_ns / kNsPerSecond, wake_ns % kNsPerSecond};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, nullptr) == EINTR) {
    }
  }
  spin_until(deadline_ns);
}

}  // namespace gpuwatch::sim
