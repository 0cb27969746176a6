// SPDX-License-Identifier: Apache-2.0
// Whether the frames of this interpreter can be walked as hooks/stacks does it, without the GIL and from the
// memory of CPython's structures: a first walk must find what the interpreter itself says.
//
// Thread safety: the GIL must be held. Signal safety: none. Errors: where the walk finds something else, or
// reading is refused, the source "stacks" says so and no stack is recorded.
#pragma once

namespace gpuwatch::hooks::python {

// Once, from within a call out of Python.
void check_frames() noexcept;

// After check_frames(), when recording is on; from any thread, without the GIL.
void put_frames_state() noexcept;

}  // namespace gpuwatch::hooks::python
