// SPDX-License-Identifier: Apache-2.0
// Resources that a training thread used from step to step: CPU time, run-queue delay, major page faults,
// input. Read at the end of an optimizer step, over the time since the last reading on this thread.
//
// Overhead: 5 us (system calls and a file in /proc), so at most once in 5 ms: 0.1%. A step in between is
// recorded without a detail.
//
// Thread safety: any. Signal safety: yes.
#pragma once

#include "libinject/record/recorder.h"

namespace gpuwatch::hooks::python {

// Ends the record of an OptimizerStep, with the usage since the last reading if one is due.
void leave_step(const record::Scope& scope, uint8_t flags, uint32_t optimizer) noexcept;

}  // namespace gpuwatch::hooks::python
