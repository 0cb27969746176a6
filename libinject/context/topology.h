// SPDX-License-Identifier: Apache-2.0
// NUMA nodes and their CPUs, the CPUs that this process may use, the clock of one CPU. Thread safety: any.
// Errors: empty text, zeros.
#pragma once

#include <cstdint>

#include "libinject/machine/roots.h"

namespace gpuwatch::context {

// "0:0-31;1:32-63": nodes with their CPUs. Returns the number of nodes.
uint32_t read_numa_nodes(const machine::Roots& roots, base::Text<2048>* nodes) noexcept;

struct Affinity {
  uint32_t count = 0;     // CPUs that the calling thread may run on
  base::Text<1024> list;  // "0-3,8"
};
void read_affinity(Affinity* affinity) noexcept;

uint32_t read_cpu_mhz(const machine::Roots& roots,
                      uint32_t cpu) noexcept;  // now; 0 without cpufreq (virtual machines)

}  // namespace gpuwatch::context
