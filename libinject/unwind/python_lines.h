// SPDX-License-Identifier: Apache-2.0
// The line of a Python instruction, from the code object's line table: co_lnotab (3.9), co_linetable of 3.10,
// location table (3.11 and newer). CPython's own PyCode_Addr2Line follows pointers; this reads through
// ForeignMemory. Thread and signal safety: yes.
#pragma once

#include <cstdint>

#include "libinject/unwind/foreign_memory.h"

namespace gpuwatch::unwind {

// `table` is the address of a bytes object, `offset` that of the instruction in bytes. 0: not known.
int32_t line_of(ForeignMemory& memory, int minor, uint64_t table, int32_t first_line,
                int64_t offset) noexcept;

}  // namespace gpuwatch::unwind
