// SPDX-License-Identifier: Apache-2.0
// Which of torch's modules are wrapped, and with what. A module is prepared right after it was executed, or
// in place when it was imported before the door opened; preparing it twice changes nothing.
//
// Thread safety: the GIL must be held. Signal safety: none. Errors: a class or method that this torch lacks
// is left out; the source's state says what that costs.
#pragma once

#include "hooks/python/api.h"
#include "libinject/base/text.h"

namespace gpuwatch::hooks::python {

bool is_target(const char* module_name) noexcept;
void prepare(const char* module_name, PyObject* module) noexcept;
void prepare_loaded_modules() noexcept;

// "on", or "on, but not seen in this PyTorch: fetches, pinning".
using StateText = base::Text<256>;
StateText state_of_targets() noexcept;

}  // namespace gpuwatch::hooks::python
