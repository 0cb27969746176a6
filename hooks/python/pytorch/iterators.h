// SPDX-License-Identifier: Apache-2.0
// The live iterators over loaders, by address; and for each thread, which of them it is constructing or
// waiting for. This is kept outside the Python objects, where the user cannot see it; a weak reference tells
// when an iterator dies, so that a reused address is not mistaken for it.
//
// Thread safety: the GIL must be held for the table, not for the state of a thread. Signal safety: none.
#pragma once

#include <cstdint>

#include "hooks/python/pytorch/loader_info.h"
#include "libinject/base/compiler.h"

namespace gpuwatch::hooks::python {

struct Iterator {
  PyObject* object = nullptr;  // null: free
  PyObject* death = nullptr;   // our weak reference to it; null where its class allows none
  Loader* loader = nullptr;
  uint32_t returned = 0;       // batches in this epoch
  uint32_t last_received = 0;  // index of the batch that came off the result queue last
  uint32_t epoch = 0;          // process that constructed it (runtime::epoch); a forked child has its copy
  bool is_exhausted = false;   // its last next() raised: the next epoch does not overlap with this one
  uint32_t loader_id() const noexcept { return loader ? loader->id : 0; }
};

// The iterator's entry; null if its construction was not seen, or is more than 128 iterators ago.
Iterator* find_iterator(const PyObject* object) noexcept;
Iterator* add_iterator(PyObject* object, Loader* loader) noexcept;

// The iterator whose attribute `name` is `value`; null if none has it.
Iterator* find_iterator_with(const char* name, const PyObject* value) noexcept;

// Whether an iterator of this process is in the middle of an epoch over this loader.
bool is_in_use(const Loader& loader) noexcept;

// This process's number among the workers of a loader, -1 outside worker processes.
long worker_index() noexcept;

// A message of the workers' queue: (index, data) for a batch. The index is none when a worker acknowledges a
// reset; the data is no batch when the worker's iterable is exhausted.
struct Message {
  long index = -1;
  bool is_end = false;
};
Message read_message(PyObject* message) noexcept;

// What this thread is doing. A forked worker inherits the first member: it is forked while its parent
// constructs the iterator, which tells the worker its loader.
struct LoaderActivity {
  Iterator* constructing = nullptr;
  Iterator* waiting_in = nullptr;    // in next()
  Iterator* fetching_for = nullptr;  // within that next(), in the dataset's code
  uint32_t epoch = 0;                // process in which this was written (runtime::epoch)
};
extern GW_TLS LoaderActivity t_activity;

}  // namespace gpuwatch::hooks::python
