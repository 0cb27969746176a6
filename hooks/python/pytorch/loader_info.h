// SPDX-License-Identifier: Apache-2.0
// What a DataLoader is set to, and which loader of the trace it is. A loader keeps its id over its passes;
// one made anew each epoch on the same line and with the same settings is the same loader, if its dataset is
// the same, or the one before is gone. Passes that overlap (zip(loader, loader)) number their batches
// independently: each beside the first gets an entry of its own, told apart by `instance`. Reads attributes
// only: no code of the user's dataset or sampler runs (a __len__ that prints would print once more),
// therefore `batches` is known for torch's own datasets only.
//
// Thread safety: the GIL must be held. Signal safety: none.
#pragma once

#include <cstdint>

#include "hooks/python/interpreter/api.h"

namespace gpuwatch::hooks::python {

struct Loader {
  uint32_t id = 0;      // in the trace
  uint32_t passes = 0;  // begun so far
  int num_workers = 0;
  bool is_in_order = true;
};

// From DataLoader's constructor: the user's line is on the stack now and not later.
void remember_constructor(PyObject* loader) noexcept;

// The loader's entry for another pass, written to the trace on first sight. Null where recording is off, or
// 256 passes are under way at once. Lives forever, but may be reused for another loader after 256 more.
Loader* identify(PyObject* loader) noexcept;

}  // namespace gpuwatch::hooks::python
