// SPDX-License-Identifier: Apache-2.0
// The settings of a DataLoader, and which loader of the trace it is. A loader keeps its id over its epochs.
// One that is constructed for each epoch on the same line with the same settings is the same loader if its
// dataset is the same, or if the one before is gone. Epochs that overlap (zip(loader, loader)) number their
// batches independently: each further one gets an entry with another `instance`. Only attributes are read:
// no code of the user's dataset or sampler runs (a __len__ that prints would print once more), so `batches`
// is known for torch's own datasets only.
//
// Thread safety: the GIL must be held. Signal safety: none.
#pragma once

#include <cstdint>

#include "hooks/python/interpreter/api.h"
#include "hooks/python/interpreter/location.h"

namespace gpuwatch::hooks::python {

struct Loader {
  uint32_t id = 0;      // in the trace
  uint32_t epochs = 0;  // begun so far
  int num_workers = 0;
  bool is_in_order = true;
};

// From DataLoader's constructor, where the user's line is on the stack.
void remember_constructor(PyObject* loader) noexcept;

// Where the user set the loader up, as LoaderInfo.location has it.
Location place_of_loader(PyObject* loader) noexcept;

// The loader's entry for another epoch, written to the trace on first sight. Null where recording is off, or
// 256 epochs are under way. The entry is never freed, but may be reused for another loader after 256 more.
Loader* identify(PyObject* loader) noexcept;

}  // namespace gpuwatch::hooks::python
