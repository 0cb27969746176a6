// SPDX-License-Identifier: Apache-2.0
// How many threads PyTorch is set to for an operation on a CPU: the fact `torch_threads`, written when it
// changes. Thread safety: the GIL must be held. Signal safety: none.
#pragma once

namespace gpuwatch::hooks::python {

void note_intra_op_threads() noexcept;

}  // namespace gpuwatch::hooks::python
