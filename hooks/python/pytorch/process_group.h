// SPDX-License-Identifier: Apache-2.0
// This process's rank and the number of ranks, as torch.distributed knows them: a job whose launcher gives
// them as arguments (torch.multiprocessing.spawn) has no variable that tells. Facts "process_group.rank" and
// "process_group.size", once. Thread safety: the GIL must be held. Signal safety: none.
#pragma once

#include <cstdint>

namespace gpuwatch::hooks::python {

// Looks at most once a second, and no more once the group is known; else a load and a compare. `now` in
// ticks.
void note_process_group(uint64_t now) noexcept;

}  // namespace gpuwatch::hooks::python
