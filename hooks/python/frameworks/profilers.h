// SPDX-License-Identifier: Apache-2.0
// TensorFlow's and JAX's profilers. They look CUPTI's functions up by dlsym on a handle, so their calls do
// not reach our interposed symbols; but a profile is started and stopped by Python functions, and around
// these the CUPTI session releases CUPTI. Profiles requested over the network (TensorBoard's "capture") or
// started from C++ are not seen.
//
// Thread safety: the GIL must be held. Signal safety: none. Errors: a function that this version does not
// have is left out.
#pragma once

#include "hooks/python/interpreter/api.h"

namespace gpuwatch::hooks::python {

bool is_profiler_module(const char* name) noexcept;
void wrap_profiler(const char* name, PyObject* module) noexcept;
void wrap_loaded_profilers() noexcept;

}  // namespace gpuwatch::hooks::python
