// SPDX-License-Identifier: Apache-2.0
// Memory of the machine and what swapping brought back. Thread safety: any. Errors: zeros.
#pragma once

#include <cstdint>

#include "libinject/machine/roots.h"

namespace gpuwatch::context {

struct MachineMemory {
  uint64_t total_bytes = 0;
  uint64_t available_bytes = 0;  // free, or the kernel can free it without swapping
  uint64_t swap_bytes = 0;       // room for swapping; 0: none is set up
};
MachineMemory read_machine_memory(const machine::Roots& roots) noexcept;

uint64_t read_swap_in_bytes(const machine::Roots& roots) noexcept;  // since boot

struct Room {
  uint64_t bytes = 0;
  uint64_t used_bytes = 0;
};
Room read_room(const char* mount_point) noexcept;  // of a file system, /dev/shm for example

// CPU time that the first write to a page of shared memory takes here: loader workers pay it for each batch.
// It is 0.2 us on some machines and 5 us on a virtual one. Maps and unmaps 64 pages, which takes up to 0.5
// ms.
uint64_t measure_shared_page_ns() noexcept;

}  // namespace gpuwatch::context
