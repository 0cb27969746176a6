// SPDX-License-Identifier: Apache-2.0
// Where the stages of tf.data pipelines come from: for each dataset, the user's line that made it
// (`.map(...)`, `from_generator(...)`), and the Python code that TensorFlow calls in it. A dataset traces its
// function while it is constructed, so a py_function that is registered meanwhile belongs to it; datasets
// that are made inside that function (of interleave, flat_map) count as part of the outer one.
//
// Datasets are identified by address; a new one at a known address replaces it. 256 are kept, the newest.
// Thread safety: the GIL must be held. Signal safety: none. Cost: 30 to 60 us for each dataset constructed.
#pragma once

#include "hooks/python/interpreter/location.h"

namespace gpuwatch::hooks::python {

struct TfStage {
  const PyObject* dataset;
  char location[256];  // "file:line"
  char python[32];     // "tf.py_function", "tf.numpy_function", "from_generator"; empty: no Python runs in it
  char code[256];      // "file:line name" of that Python function; empty: not known
};

void note_stage(const PyObject* dataset) noexcept;         // at the end of its construction
void note_python_function(PyObject* registered) noexcept;  // in script_ops.FuncRegistry.insert

const TfStage* stage_of(const PyObject* dataset) noexcept;  // null if it is not known
bool has_forgotten_stages() noexcept;                       // those before the last 256

}  // namespace gpuwatch::hooks::python
