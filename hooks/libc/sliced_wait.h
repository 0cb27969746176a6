// SPDX-License-Identifier: Apache-2.0
// A wait of the Python interpreter for data workers, interrupted when the waiting thread is due to sample
// their stacks (hooks/stacks/worker_stacks.h). After the sample it returns as an interrupted call does (-1,
// EINTR): CPython then runs the handlers of pending signals, computes the remaining time and calls again, so
// that time-outs and signals behave as without us. Going on with the wait in here would delay a signal that
// came during the sample, and another caller might take EINTR for an error: only calls from the interpreter
// itself, inside a loader's next(), are interrupted. Internal to hooks/libc. Thread safety: any. Signal
// safety: as the functions themselves.
#pragma once

#include <poll.h>
#include <semaphore.h>
#include <time.h>

#include "hooks/libc/real.h"
#include "hooks/stacks/worker_stacks.h"

namespace gpuwatch::hooks::libc {

int sliced_poll(pollfd* fds, nfds_t count, int timeout_ms);
int sliced_sem_timedwait(sem_t* sem, const timespec* until);
int sliced_sem_clockwait(sem_t* sem, clockid_t clock, const timespec* until);

// What to call in place of `real`, the function of this row of libc.def, for this caller.
template <Function kFunction>
struct Slicing {
  template <class Real>
  static Real in_place_of(Real real, const void*) noexcept {
    return real;
  }
};

#define GW_SLICED(name)                                                                     \
  template <>                                                                               \
  struct Slicing<Function::name> {                                                          \
    using Real = decltype(&sliced_##name);                                                  \
    static Real in_place_of(Real real, const void* caller) noexcept {                       \
      const bool is_cut = stacks::is_watching_workers() && stacks::is_interpreters(caller); \
      return is_cut ? sliced_##name : real;                                                 \
    }                                                                                       \
  };
GW_SLICED(poll)
GW_SLICED(sem_timedwait)
GW_SLICED(sem_clockwait)
#undef GW_SLICED

}  // namespace gpuwatch::hooks::libc
