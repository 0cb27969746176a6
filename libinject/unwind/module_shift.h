// SPDX-License-Identifier: Apache-2.0
// How far a module's addresses in another process are from those in this one. The same file (by device and
// inode in /proc/PID/maps), because the same path may be another file elsewhere. Reads two files of a few
// hundred lines: 0.2 to 2 ms. Thread safety: any. Signal safety: yes.
#pragma once

#include <cstdint>

namespace gpuwatch::unwind {

// Of the module that holds `address` here; false if the process has it not, or cannot be looked at.
bool find_module_shift(uint32_t pid, uint64_t address, uint64_t& shift) noexcept;

}  // namespace gpuwatch::unwind
