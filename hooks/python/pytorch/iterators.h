// SPDX-License-Identifier: Apache-2.0
// The iterators over loaders that are alive, by address; and, for each thread, which of them it is just
// constructing or waiting for. Kept outside the Python objects, where the user cannot see it; a weak
// reference tells when one dies, so that an address used again is not taken for it.
//
// Thread safety: the GIL must be held (the table), none needed (this thread's part). Signal safety: none.
#pragma once

#include <cstdint>

#include "hooks/python/pytorch/loader_info.h"
#include "libinject/base/compiler.h"

namespace gpuwatch::hooks::python {

struct Iterator {
  PyObject* object = nullptr;  // null: free
  PyObject* death = nullptr;   // our weak reference to it; null where its class allows none
  Loader* loader = nullptr;
  uint32_t returned = 0;       // batches in this pass
  uint32_t last_received = 0;  // index of the batch that came off the result queue last
  uint32_t epoch = 0;          // process that constructed it (runtime::epoch); a forked child has its copy
  bool is_exhausted = false;   // its last next() raised: another pass is no second one at the same time
  uint32_t loader_id() const noexcept { return loader ? loader->id : 0; }
};

// The iterator's entry; null if it was not seen being constructed, or 128 others were since.
Iterator* find_iterator(const PyObject* object) noexcept;
Iterator* add_iterator(PyObject* object, Loader* loader) noexcept;

// The iterator whose attribute `name` is `value`; null if none has it.
Iterator* find_iterator_with(const char* name, const PyObject* value) noexcept;

// An iterator of this process that is in the middle of a pass belongs to this loader.
bool is_in_use(const Loader& loader) noexcept;

// What came off the workers' queue: (index, data) for a batch. The index is none when a worker acknowledges
// a reset, and the data no batch when its iterable is exhausted.
struct Message {
  long index = -1;
  bool is_end = false;
};
Message read_message(PyObject* message) noexcept;

// What this thread is doing. A forked worker inherits the first member: it is forked while its parent
// constructs the iterator, and so knows whom it works for.
struct LoaderActivity {
  Iterator* constructing = nullptr;
  Iterator* waiting_in = nullptr;    // in next()
  Iterator* fetching_for = nullptr;  // within that next(), in the dataset's code
  uint32_t epoch = 0;                // process in which this was written (runtime::epoch)
};
extern GW_TLS LoaderActivity t_activity;

}  // namespace gpuwatch::hooks::python
