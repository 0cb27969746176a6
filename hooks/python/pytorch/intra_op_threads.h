// SPDX-License-Identifier: Apache-2.0
// How many threads PyTorch computes an operation with, on a CPU: the fact `torch_threads`, once, at the first
// optimizer step that is recorded. Thread safety: the GIL must be held. Signal safety: none.
#pragma once

namespace gpuwatch::hooks::python {

void put_intra_op_threads() noexcept;

}  // namespace gpuwatch::hooks::python
