// SPDX-License-Identifier: Apache-2.0
// The framework a loader belongs to, as its user sees it: the one that the user's own code calls, or the one
// that the loader's class comes from. Ids are those of libinject/trace/frameworks.def.
//
// Thread safety: the GIL must be held; reads this thread's own frames. About 0.3 us a frame. Signal safety:
// none.
#pragma once

#include "hooks/python/interpreter/api.h"
#include "hooks/python/interpreter/location.h"

namespace gpuwatch::hooks::python {

// The framework of the outermost frame between the user's code and here; null if there is none.
const char* framework_on_stack() noexcept;

// The framework that the object's class comes from; null if it is torch's own, the user's, or unknown.
const char* framework_of_class(PyObject* object) noexcept;

// The user's line that makes an object in which the framework's loaders are configured (TrainingArguments).
void note_settings(const char* framework) noexcept;

// The line of the newest such object; empty if none was seen.
Location settings_of(const char* framework) noexcept;

}  // namespace gpuwatch::hooks::python
