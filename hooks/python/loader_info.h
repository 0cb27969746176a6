// SPDX-License-Identifier: Apache-2.0
// What a DataLoader is set to, and which loader of the trace it is. A loader keeps its id over its passes;
// one made anew each epoch on the same line, over the same dataset and with the same settings, is the same
// loader. Reads attributes only: no code of the user's dataset or sampler runs (a __len__ that prints would
// print once more), therefore `batches` is known for torch's own datasets only.
//
// Thread safety: the GIL must be held. Signal safety: none.
#pragma once

#include <cstdint>

#include "hooks/python/api.h"

namespace gpuwatch::hooks::python {

struct Loader {
  uint32_t id = 0;      // in the trace
  uint32_t passes = 0;  // begun so far
  int num_workers = 0;
  bool is_in_order = true;
};

// From DataLoader's constructor: the user's line is on the stack now and not later.
void remember_constructor(PyObject* loader) noexcept;

// The loader's entry, written to the trace on first sight. Null only where recording is off. Lives forever,
// but may be reused for another loader after 256 more.
Loader* identify(PyObject* loader) noexcept;

}  // namespace gpuwatch::hooks::python
