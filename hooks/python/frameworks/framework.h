// SPDX-License-Identifier: Apache-2.0
// Which framework a loader belongs to, in its user's eyes: the one that his own code calls, or whose class
// the loader is. Names are those of frameworks.def.
//
// Thread safety: the GIL must be held; reads this thread's own frames. About 0.3 us a frame. Signal safety:
// none.
#pragma once

#include "hooks/python/interpreter/api.h"

namespace gpuwatch::hooks::python {

// The known framework whose frame stands nearest the user's, between his code and here; null if none does.
const char* framework_on_stack() noexcept;

// The framework that the object's class comes from; null if it is torch's own, the user's, or unknown.
const char* framework_of_class(PyObject* object) noexcept;

}  // namespace gpuwatch::hooks::python
