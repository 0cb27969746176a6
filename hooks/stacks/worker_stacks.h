// SPDX-License-Identifier: Apache-2.0
// Stack samples of a loader's workers while the training thread waits for them: at random times of that
// wait, the waiting thread reads the Python frames of the workers' main threads (libinject/unwind) and
// records them. No further thread, no signal, nothing in the worker; the reader would have slept meanwhile.
// Only time spent waiting counts towards the next sample, so samples are spread evenly over the waiting
// time, over however many waits.
//
// Cost: one sample per 50 ms of waiting on average, of up to four workers; 0.1 to 0.3 ms each. Thread
// safety: note_worker() needs the GIL; the others act on the calling thread. Signal safety: none. Errors:
// where the system forbids reading, it is tried once and then never again; the source "worker stacks" says
// so.
#pragma once

#include <cstdint>

#include "libinject/base/compiler.h"

namespace gpuwatch::hooks::stacks {

// A worker process of the iterator. `index` 0 starts a new set: the address may have been that of an earlier
// iterator.
void note_worker(const void* iterator, uint32_t index, uint32_t pid) noexcept;

struct WorkerSet;

// The state of this thread as one that waits. A forked child inherits it and must not use it: see `epoch`.
struct WorkerWatch {
  WorkerSet* workers = nullptr;  // of the iterator in whose next() this thread is
  uint64_t random = 0;
  uint64_t interval_ns = 0;  // of waiting, between the last sample and the next
  uint64_t left_ns = 0;      // until the next sample
  uint32_t epoch = 0;
  uint32_t turn = 0;  // the worker to sample first
};
extern GW_TLS WorkerWatch t_watch;

// While it exists, this thread waits for the workers of the iterator; null: for none.
class WatchWorkers {
 public:
  explicit WatchWorkers(const void* iterator) noexcept;
  ~WatchWorkers() noexcept;
  WatchWorkers(const WatchWorkers&) = delete;
  WatchWorkers& operator=(const WatchWorkers&) = delete;

 private:
  WorkerSet* outer_;
  bool was_waiting_;
};

inline bool is_watching_workers() noexcept {
  return GW_UNLIKELY(t_watch.workers != nullptr);
}

// Whether the call comes from CPython itself, which calls again after EINTR.
bool is_interpreters(const void* caller) noexcept;

// How long to wait at most before the next sample is due. Only while watching.
inline uint64_t ns_until_sample() noexcept {
  return t_watch.left_ns;
}
inline void note_waited(uint64_t ns) noexcept {
  t_watch.left_ns = ns < t_watch.left_ns ? t_watch.left_ns - ns : 0;
}
void sample_workers() noexcept;  // and draws the time until the next sample

}  // namespace gpuwatch::hooks::stacks
