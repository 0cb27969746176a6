// SPDX-License-Identifier: Apache-2.0
// TensorFlow's and JAX's profilers. They look CUPTI's functions up by dlsym on a handle, where no interposed
// symbol sees them; but a profile is begun and ended by a Python function, and around these two the CUPTI
// session makes way. A profile that is asked for over the network (TensorBoard's "capture"), or begun in C++,
// passes neither.
//
// Thread safety: the GIL must be held. Signal safety: none. Errors: what this version lacks is left out.
#pragma once

#include "hooks/python/interpreter/api.h"

namespace gpuwatch::hooks::python {

bool is_profiler_module(const char* name) noexcept;
void wrap_profiler(const char* name, PyObject* module) noexcept;
void wrap_loaded_profilers() noexcept;

}  // namespace gpuwatch::hooks::python
