// SPDX-License-Identifier: Apache-2.0
// None of these is noexcept: they are cancellation points, as what they stand in for.
#include "hooks/libc/sliced_wait.h"

#include <cerrno>

#include "libinject/base/clock.h"

namespace gpuwatch::hooks::libc {

namespace {

constexpr uint64_t kNsPerSecond = 1'000'000'000;
constexpr uint64_t kNsPerMs = 1'000'000;

bool is_before(const timespec& a, const timespec& b) noexcept {
  return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

// The instant on `clock` at which the next look is due.
timespec next_look(clockid_t clock) noexcept {
  const uint64_t ns = base::clock_ns(clock) + stacks::ns_until_sample();
  return {static_cast<time_t>(ns / kNsPerSecond), static_cast<long>(ns % kNsPerSecond)};
}

int look() noexcept {
  stacks::sample_workers();
  errno = EINTR;
  return -1;
}

// `wait(until)` fails with ETIMEDOUT at that instant of `clock`.
template <class Wait>
int wait_for_semaphore(clockid_t clock, const timespec* until, Wait wait) {
  const timespec due = next_look(clock);
  const bool is_cut = until && is_before(due, *until);
  const uint64_t begin = base::monotonic_ns();
  const int result = wait(is_cut ? &due : until);
  stacks::note_waited(base::monotonic_ns() - begin);
  return is_cut && result != 0 && errno == ETIMEDOUT ? look() : result;
}

}  // namespace

int sliced_poll(pollfd* fds, nfds_t count, int timeout_ms) {
  const auto wait = real<decltype(&sliced_poll)>(Function::poll);
  const uint64_t until_look_ms = stacks::ns_until_sample() / kNsPerMs + 1;
  const bool is_cut = timeout_ms < 0 || until_look_ms < static_cast<uint64_t>(timeout_ms);
  const uint64_t begin = base::monotonic_ns();
  const int result = wait(fds, count, is_cut ? static_cast<int>(until_look_ms) : timeout_ms);
  stacks::note_waited(base::monotonic_ns() - begin);
  return is_cut && result == 0 ? look() : result;
}

int sliced_sem_timedwait(sem_t* sem, const timespec* until) {
  const auto wait = real<decltype(&sliced_sem_timedwait)>(Function::sem_timedwait);
  return wait_for_semaphore(CLOCK_REALTIME, until, [&](const timespec* cut) { return wait(sem, cut); });
}

int sliced_sem_clockwait(sem_t* sem, clockid_t clock, const timespec* until) {
  const auto wait = real<decltype(&sliced_sem_clockwait)>(Function::sem_clockwait);
  if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC) return wait(sem, clock, until);
  return wait_for_semaphore(clock, until, [&](const timespec* cut) { return wait(sem, clock, cut); });
}

}  // namespace gpuwatch::hooks::libc
