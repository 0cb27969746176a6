// SPDX-License-Identifier: Apache-2.0
// Pauses of Python's garbage collector, through gc.callbacks. Collections of the youngest generation take
// microseconds and come by the thousand: only those over 100 us are recorded. Thread safety: the GIL must be
// held.
#pragma once

namespace gpuwatch::hooks::python {

// Wherever `gc` has been imported; torch imports it. Idempotent.
bool watch_garbage_collector() noexcept;

}  // namespace gpuwatch::hooks::python
