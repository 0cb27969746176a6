// SPDX-License-Identifier: Apache-2.0
// The file systems that the job can see, and which of them an open file is on. Written into the trace once,
// when recording starts; what is mounted later is not known. Thread safety: put_mounts() once per trace file;
// then any. Signal safety: mount_of() is. errno is kept.
#pragma once

#include <cstdint>

#include "libinject/machine/roots.h"

namespace gpuwatch::context {

// Lays down a Mount table for each real file system, at most 64; further ones are counted.
void put_mounts(const machine::Roots& roots) noexcept;

// Text id of the mount point of an open file; 0 for pipes, sockets and what was mounted later. About 0.4 us.
uint32_t mount_of(int fd) noexcept;

}  // namespace gpuwatch::context
