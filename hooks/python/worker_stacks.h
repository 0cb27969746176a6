// SPDX-License-Identifier: Apache-2.0
// What a loader's workers do while their consumer waits for them: at random moments of that wait, the
// consumer's thread reads the Python frames of the workers' main threads (libinject/unwind) and records them.
// No thread, no signal, nothing in the worker; the reader would have slept meanwhile. Because only time spent
// waiting moves the moment on, the samples are spread as the waiting is, over however many waits.
//
// Cost: mean 50 ms of waiting between samples, of up to four workers each; 0.1 to 0.3 ms a sample.
// Thread safety: note_worker() needs the GIL; the others are of the calling thread. Signal safety: none.
// Errors: where the system forbids it, once, then never again; the source "worker stacks" says so.
#pragma once

#include <cstdint>

#include "libinject/base/compiler.h"

namespace gpuwatch::hooks::python {

struct PyObject;

// A worker process of the iterator. `index` 0 begins anew: the address may have been another iterator's.
void note_worker(const PyObject* iterator, uint32_t index, uint32_t pid) noexcept;

struct WorkerSet;

// This thread's waiting. A forked child inherits it and must not use it: see `epoch`.
struct WorkerWatch {
  WorkerSet* workers = nullptr;  // of the iterator in whose next() this thread is
  uint64_t random = 0;
  uint64_t interval_ns = 0;  // between the last sample and the next, of waiting
  uint64_t left_ns = 0;      // of it
  uint32_t epoch = 0;
  uint32_t turn = 0;  // the worker to sample first
};
extern GW_TLS WorkerWatch t_watch;

// While alive, waits of this thread are waits for the iterator's workers.
class WatchWorkers {
 public:
  explicit WatchWorkers(const PyObject* iterator) noexcept;
  ~WatchWorkers() noexcept { t_watch.workers = outer_; }
  WatchWorkers(const WatchWorkers&) = delete;
  WatchWorkers& operator=(const WatchWorkers&) = delete;

 private:
  WorkerSet* outer_;
};

inline bool is_watching_workers() noexcept {
  return GW_UNLIKELY(t_watch.workers != nullptr);
}

// The call comes from CPython's own code, which calls again when it is told of an interruption.
bool is_interpreters(const void* caller) noexcept;

// How long to wait at most before the next sample is due. Only while watching.
inline uint64_t ns_until_sample() noexcept {
  return t_watch.left_ns;
}
inline void note_waited(uint64_t ns) noexcept {
  t_watch.left_ns = ns < t_watch.left_ns ? t_watch.left_ns - ns : 0;
}
void sample_workers() noexcept;  // and draws the next moment

}  // namespace gpuwatch::hooks::python
