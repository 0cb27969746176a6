// SPDX-License-Identifier: Apache-2.0
// What record/ offers itself beyond recorder.h: tables that only the recorder writes, and losses.
#pragma once

#include <cstdint>

#include "libinject/trace/templates.h"

namespace gpuwatch::record {

void put(const trace::ProcessFields& fields) noexcept;
void begin_losses() noexcept;  // of this process: a forked child has inherited its parent's
uint64_t
take_torn_records() noexcept;  // dropped since the last call because a signal handler interrupted a store

}  // namespace gpuwatch::record
