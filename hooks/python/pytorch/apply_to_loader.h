// SPDX-License-Identifier: Apache-2.0
// Gives a DataLoader the settings that GPUWATCH_APPLY asks for, at the end of its constructor: the
// constructor derives nothing from them, so attributes set then are as good as arguments, and its signature,
// which Lightning and others read, stays. Frameworks that construct a loader of their own from the user's
// take them from its attributes. What would change the samples is refused, and said: workers for an
// IterableDataset that no code was found to split among them.
//
// Thread safety: the GIL must be held. Signal safety: none. Errors: a setting that the loader does not take
// leaves it as it is, and the trace says so.
#pragma once

#include "hooks/python/interpreter/api.h"

namespace gpuwatch::hooks::python {

void apply_to_loader(PyObject* loader) noexcept;  // its constructor has been remembered (loader_info.h)

}  // namespace gpuwatch::hooks::python
