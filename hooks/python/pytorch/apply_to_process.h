// SPDX-License-Identifier: Apache-2.0
// What GPUWATCH_APPLY asks for beside loaders: of the training process, when its first epoch or optimizer
// step begins and the script's own set-up is over, and of each DataLoader worker, before its first batch.
//
// Thread safety: the GIL must be held. Signal safety: none. Errors: what this PyTorch lacks is left alone,
// and the trace says so.
#pragma once

namespace gpuwatch::hooks::python {

void apply_to_process() noexcept;        // does something once in a process
void apply_after_first_step() noexcept;  // gc.freeze(), once in a process
void apply_to_worker() noexcept;

}  // namespace gpuwatch::hooks::python
