// SPDX-License-Identifier: Apache-2.0
// A wait for data workers in slices, so that the waiting thread can look at them now and then
// (hooks/python/worker_stacks.h): result, errno, time-out and interruption are those of one call. Stands in
// for the real function inside a loader's next() only; everything else never gets here. Internal to
// hooks/libc. Thread safety: any. Signal safety: as the functions themselves.
#pragma once

#include <poll.h>
#include <semaphore.h>
#include <time.h>

#include "hooks/libc/real.h"
#include "hooks/python/worker_stacks.h"

namespace gpuwatch::hooks::libc {

int sliced_poll(pollfd* fds, nfds_t count, int timeout_ms);
int sliced_sem_timedwait(sem_t* sem, const timespec* until);
int sliced_sem_clockwait(sem_t* sem, clockid_t clock, const timespec* until);

// What to call in place of `real`, the function of this row of libc.def.
template <Function kFunction>
struct Slicing {
  template <class Real>
  static Real in_place_of(Real real) noexcept {
    return real;
  }
};
template <>
struct Slicing<Function::poll> {
  using Real = int (*)(pollfd*, nfds_t, int);
  static Real in_place_of(Real real) noexcept { return python::is_watching_workers() ? sliced_poll : real; }
};
template <>
struct Slicing<Function::sem_timedwait> {
  using Real = int (*)(sem_t*, const timespec*);
  static Real in_place_of(Real real) noexcept {
    return python::is_watching_workers() ? sliced_sem_timedwait : real;
  }
};
template <>
struct Slicing<Function::sem_clockwait> {
  using Real = int (*)(sem_t*, clockid_t, const timespec*);
  static Real in_place_of(Real real) noexcept {
    return python::is_watching_workers() ? sliced_sem_clockwait : real;
  }
};

}  // namespace gpuwatch::hooks::libc
