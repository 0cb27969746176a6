// SPDX-License-Identifier: Apache-2.0
// Which of torch's modules are wrapped, and with what. A module is prepared right after it was executed, or
// in place when it was imported before the door opened; preparing it twice changes nothing.
//
// Thread safety: the GIL must be held. Signal safety: none. Errors: a class or method that this torch lacks
// is left out; the source's state says what that costs.
#pragma once

#include "hooks/python/api.h"

namespace gpuwatch::hooks::python {

bool is_target(const char* module_name) noexcept;
void prepare(const char* module_name, PyObject* module) noexcept;
void prepare_loaded_modules() noexcept;

// Says what the source `python` gives: On; Partial, with what this torch lacks; or that none was imported
// yet.
void put_state_of_targets() noexcept;

}  // namespace gpuwatch::hooks::python
