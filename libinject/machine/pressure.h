// SPDX-License-Identifier: Apache-2.0
// Pressure stall information: how long at least one task stood still for want of CPU, memory or I/O, in total
// ("some"). Of the process's control group where it has one that tells (version 2), else of the machine.
// Thread safety: find once, then any. Errors: a kernel without PSI gives zeros and scope "none".
#pragma once

#include <cstdint>

#include "libinject/machine/roots.h"

namespace gpuwatch::machine {

struct PressureFiles {
  KeptPath cpu, memory, io;    // empty: not told
  const char* scope = "none";  // "cgroup", "machine"
};
void find_pressure(const Roots& roots, PressureFiles* files) noexcept;

uint64_t read_pressure_ns(const KeptPath& file) noexcept;

}  // namespace gpuwatch::machine
