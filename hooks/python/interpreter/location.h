// SPDX-License-Identifier: Apache-2.0
// The place in the user's program that a Python call came from: the innermost frame that belongs neither to
// a library (site-packages, dist-packages, the standard library) nor to the interpreter, as "file:line". In
// a program that consists of libraries only (`python -m package.train`, pip's bin/yolo), the innermost frame
// outside torch.
//
// Thread safety: the GIL must be held; reads this thread's own frames. About 0.3 us a frame. Signal safety:
// none.
#pragma once

#include "hooks/python/interpreter/object.h"
#include "libinject/base/text.h"

namespace gpuwatch::hooks::python {

using Location = base::Text<512>;

Location users_location() noexcept;  // empty if there is none

// The file is neither a library's nor the interpreter's.
bool is_users_file(const char* file) noexcept;
// Nor was the frame's made by dataclasses, attrs or namedtuple.
bool is_users_frame(PyObject* frame, const char* file) noexcept;

// "file:line name" of a function that is written in Python, of the one that decorators wrap; empty if it is
// not written in Python.
using FunctionPlace = base::Text<1024>;
FunctionPlace place_of_function(PyObject* function) noexcept;

}  // namespace gpuwatch::hooks::python
