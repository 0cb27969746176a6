// SPDX-License-Identifier: Apache-2.0
// Replaces a method of a Python class by a C function that calls the original. A C function adds no
// traceback frame, costs about 120 ns a call where a Python wrapper costs 160 to 250, and is inherited,
// called and looked at like the original (method.h). The original travels as the `self` of the C function, so
// that a module imported twice has two independent pairs.
//
// Thread safety: the GIL must be held. Signal safety: none. Errors: what cannot be wrapped stays as it is.
#pragma once

#include "hooks/python/interpreter/object.h"

namespace gpuwatch::hooks::python {

struct Wrapper {
  const char* class_name;
  MethodDef method;  // its function gets (original, self) if kOneObject, else (original, args[, keywords])
};

// True if `function` is the C function made from `def`.
bool is_function_of(PyObject* function, const MethodDef& def) noexcept;

// True if the class's method is wrapped, now or already.
bool wrap_method(PyObject* module, Wrapper& wrapper) noexcept;

// The same for a function of a module. The original is kept in `original` and not in the C function, which
// pickles by its name like any function of a module. If a module is imported twice, both copies call the
// original of the later one.
bool wrap_function(PyObject* module, MethodDef& function, PyObject*& original) noexcept;

}  // namespace gpuwatch::hooks::python
