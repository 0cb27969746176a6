// SPDX-License-Identifier: Apache-2.0
// What stands in a class in place of a Python function: calls a C function, and is to all who look at it the
// function that it stands for. Read from the class it is itself, from an object it is bound to that; so it
// can be kept under another name of any class, as libraries do that patch PyTorch (SpeechBrain:
// `Iter.__old_init__ = Iter.__init__`). An instancemethod cannot: read from its class it is the bare C
// function, which binds no more, and the job ended with a TypeError.
//
// Attributes are the original's, for reading and writing. It pickles by its name, as functions do.
// Thread safety: the GIL must be held. Signal safety: none. Errors: an empty Ref, with Python's error set.
#pragma once

#include "hooks/python/interpreter/object.h"

namespace gpuwatch::hooks::python {

// Lives for ever, as both of its parts do.
Ref make_method(PyObject* function, PyObject* original) noexcept;

// Borrowed: the C function of such a method, null for anything else.
PyObject* function_of_method(PyObject* object) noexcept;

}  // namespace gpuwatch::hooks::python
