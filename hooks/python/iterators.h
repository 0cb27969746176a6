// SPDX-License-Identifier: Apache-2.0
// The iterators over loaders that are alive, by address; and, for each thread, which of them it is just
// constructing or waiting for. Kept outside the Python objects, where the user cannot see it.
//
// Thread safety: the GIL must be held (the table), none needed (this thread's part). Signal safety: none.
#pragma once

#include <cstdint>

#include "hooks/python/loader_info.h"
#include "libinject/base/compiler.h"

namespace gpuwatch::hooks::python {

struct Iterator {
  const PyObject* object = nullptr;
  Loader* loader = nullptr;
  uint32_t returned = 0;       // batches in this pass
  uint32_t last_received = 0;  // index of the batch that came off the result queue last
  uint32_t loader_id() const noexcept { return loader ? loader->id : 0; }
};

// The iterator's entry; null if it was not seen being constructed, or 128 others were since.
Iterator* find_iterator(const PyObject* object) noexcept;
Iterator* add_iterator(const PyObject* object, Loader* loader) noexcept;

// What this thread is doing. A forked worker inherits the first member: it is forked while its parent
// constructs the iterator, and so knows whom it works for.
struct LoaderActivity {
  Iterator* constructing = nullptr;
  Iterator* waiting_in = nullptr;  // in next()
  uint32_t epoch = 0;              // process in which this was written (runtime::epoch)
};
extern GW_TLS LoaderActivity t_activity;

}  // namespace gpuwatch::hooks::python
