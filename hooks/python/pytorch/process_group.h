// SPDX-License-Identifier: Apache-2.0
// This process's rank and the number of ranks, as torch.distributed knows them: a job whose launcher gives
// them as arguments (torch.multiprocessing.spawn) has no variable that tells. Facts "process_group.rank" and
// "process_group.size". Thread safety: the GIL must be held. Signal safety: none.
#pragma once

namespace gpuwatch::hooks::python {

void note_process_group() noexcept;

}  // namespace gpuwatch::hooks::python
