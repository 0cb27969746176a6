// SPDX-License-Identifier: Apache-2.0
// Questions to the objects of a batch that run no code of the program: only objects whose type is exactly
// Python's, NumPy's or PyTorch's own are asked anything, a subclass may do what it likes. Thread safety: the
// GIL must be held. Signal safety: none. Errors: a failed question clears Python's error and answers the
// default; where an exception may be pending it needs an ErrorGuard around it.
#pragma once

#include "hooks/python/interpreter/object.h"

namespace gpuwatch::hooks::python {

Ref member(const char* module_name, const char* name) noexcept;  // empty where the module is not loaded
bool is_exactly(PyObject* object, const Ref& type) noexcept;
SsizeT size(PyObject* object) noexcept;                               // -1: it has none
long asked(PyObject* object, Name& method, long otherwise) noexcept;  // a method without arguments

// A mode (set_default_device, a tracer of the program's own) is shown each call on a tensor.
bool has_torch_function_mode() noexcept;

// What holds the fields of a batch: itself, or what its class keeps them in (GW_FRAMEWORK_BATCH).
Ref fields_of_batch(PyObject* batch) noexcept;

}  // namespace gpuwatch::hooks::python
