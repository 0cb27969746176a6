// SPDX-License-Identifier: Apache-2.0
// What each wrapped module of torch gets; one source file each (loader.cpp, fetch.cpp, optimizer.cpp,
// checkpoint.cpp, garbage.cpp). Called with the module, under the GIL, possibly more than once.
#pragma once

#include "hooks/python/api.h"

namespace gpuwatch::hooks::python {

bool wrap_loader(PyObject* module) noexcept;
bool wrap_fetchers(PyObject* module) noexcept;
bool watch_optimizers(PyObject* module) noexcept;
bool wrap_checkpoints(PyObject* module) noexcept;
bool watch_garbage_collector() noexcept;  // wherever `gc` has been imported; torch imports it

}  // namespace gpuwatch::hooks::python
