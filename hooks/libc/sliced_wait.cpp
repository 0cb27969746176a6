// SPDX-License-Identifier: Apache-2.0
// None of these is noexcept: they are cancellation points, as what they stand in for.
#include "hooks/libc/sliced_wait.h"

#include <cerrno>

#include "libinject/base/clock.h"

namespace gpuwatch::hooks::libc {

namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;

timespec timespec_of(uint64_t ns) noexcept {
  return {static_cast<time_t>(ns / kNsPerSecond), static_cast<long>(ns % kNsPerSecond)};
}

bool is_before(const timespec& a, const timespec& b) noexcept {
  return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

// The instant on `clock` at which the next sample is due.
timespec next_sample_on(clockid_t clock) noexcept {
  return timespec_of(base::clock_ns(clock) + python::ns_until_sample());
}

// `wait(until)` fails with ETIMEDOUT at that instant of `clock`.
template <class Wait>
int wait_in_slices(clockid_t clock, const timespec& until, Wait wait) {
  const int errno_before = errno;
  for (;;) {
    const uint64_t begin = base::monotonic_ns();
    const bool is_watching = python::is_watching_workers();
    const timespec sample = is_watching ? next_sample_on(clock) : until;
    const bool is_last = !is_before(sample, until);
    errno = errno_before;
    const int result = wait(is_last ? &until : &sample);
    if (is_watching) python::note_waited(base::monotonic_ns() - begin);
    if (result == 0 || errno != ETIMEDOUT || is_last) return result;
    python::sample_workers();
  }
}

// A time that the function refuses, or that does not fit our arithmetic, is the function's own affair.
bool can_be_sliced(const timespec* until) noexcept {
  return until && until->tv_sec >= 0 && until->tv_nsec >= 0 && until->tv_nsec < kNsPerSecond;
}

}  // namespace

int sliced_poll(pollfd* fds, nfds_t count, int timeout_ms) {
  using Ppoll = int (*)(pollfd*, nfds_t, const timespec*, const sigset_t*);
  const auto wait = real<Ppoll>(Function::ppoll);
  if (timeout_ms == 0 || !wait)
    return real<int (*)(pollfd*, nfds_t, int)>(Function::poll)(fds, count, timeout_ms);
  uint64_t now = base::monotonic_ns();
  const uint64_t deadline = timeout_ms < 0 ? UINT64_MAX : now + static_cast<uint64_t>(timeout_ms) * 1'000'000;
  for (;;) {
    const uint64_t left = deadline > now ? deadline - now : 0;
    const uint64_t until_sample = python::ns_until_sample();
    const bool is_last = left <= until_sample;
    const timespec slice = timespec_of(is_last ? left : until_sample);
    const bool is_endless = is_last && timeout_ms < 0;  // no more samples
    const int result = wait(fds, count, is_endless ? nullptr : &slice, nullptr);
    python::note_waited(base::monotonic_ns() - now);
    if (result != 0 || is_last) return result;
    python::sample_workers();
    now = base::monotonic_ns();
  }
}

int sliced_sem_timedwait(sem_t* sem, const timespec* until) {
  const auto wait = real<int (*)(sem_t*, const timespec*)>(Function::sem_timedwait);
  if (!can_be_sliced(until)) return wait(sem, until);
  return wait_in_slices(CLOCK_REALTIME, *until, [&](const timespec* slice) { return wait(sem, slice); });
}

int sliced_sem_clockwait(sem_t* sem, clockid_t clock, const timespec* until) {
  const auto wait = real<int (*)(sem_t*, clockid_t, const timespec*)>(Function::sem_clockwait);
  const bool is_known_clock = clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC;
  if (!is_known_clock || !can_be_sliced(until)) return wait(sem, clock, until);
  return wait_in_slices(clock, *until, [&](const timespec* slice) { return wait(sem, clock, slice); });
}

}  // namespace gpuwatch::hooks::libc
