// SPDX-License-Identifier: Apache-2.0
// What a training thread used from step to step: CPU time, time it was runnable but not running, page faults
// that had to read, input asked for. Taken at the end of an optimizer's step, over the time since it was last
// taken on this thread.
//
// Cost: some 5 us (system calls and a file in /proc), so at most once in 5 ms: 0.1 %. The step in between
// is recorded without a detail.
//
// Thread safety: any. Signal safety: yes.
#pragma once

#include "libinject/record/recorder.h"

namespace gpuwatch::hooks::python {

// Leaves an OptimizerStep, with the cost since the last one where it is due.
void leave_step(const record::Scope& scope, uint8_t flags, uint32_t optimizer) noexcept;

}  // namespace gpuwatch::hooks::python
