// SPDX-License-Identifier: Apache-2.0
// Tells a forked child from its parent, also after clone() and raw SYS_fork, which pthread_atfork does not
// see: a page marked MADV_WIPEONFORK holds the process's epoch and reads 0 in every child. One load (2 ns),
// where getpid() is a system call (80 ns). Where the kernel refuses the mark (gVisor, before 4.14, seccomp),
// a pthread_atfork handler writes the 0. Thread and signal safe.
#pragma once

#include <cstdint>

namespace gpuwatch::runtime {

// Makes the page; false where a child of a raw clone goes unnoticed.
bool start_epochs() noexcept;

// The epoch of this process; 0: just forked, nobody has called enter_epoch yet.
extern constinit volatile uint32_t* g_epoch;
inline uint32_t epoch() noexcept {
  return g_epoch ? *g_epoch : 0;
}

// In a child: takes a new epoch. Racing threads of the child get the same.
uint32_t enter_epoch() noexcept;

}  // namespace gpuwatch::runtime
