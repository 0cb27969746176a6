// SPDX-License-Identifier: Apache-2.0
// torch.nn.modules.module. Called with the module, possibly more than once. Thread safety: the GIL must be
// held. Signal safety: none.
#pragma once

#include "hooks/python/interpreter/api.h"
#include "hooks/python/pytorch/parts.h"

namespace gpuwatch::hooks::python {

Parts wrap_module_eval(PyObject* module) noexcept;

}  // namespace gpuwatch::hooks::python
