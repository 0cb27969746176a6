// SPDX-License-Identifier: Apache-2.0
// The source `python`: what the wrappers inside CPython see. This file composes it: which modules are
// wrapped, and with what. Thread safety: any.
#pragma once

namespace gpuwatch::hooks::python {

void arm() noexcept;           // from the library's constructor
void on_recording() noexcept;  // once per trace file: says what the source can see

}  // namespace gpuwatch::hooks::python
