// SPDX-License-Identifier: Apache-2.0
// The file systems that the job can see, and which of them an open file is on. Written into the trace once,
// when recording starts; what is mounted later is not known. Thread safety: put_mounts() once per trace file;
// then any. Signal safety: mount_of() is. errno is kept.
#pragma once

#include <cstdint>

#include "libinject/context/roots.h"

namespace gpuwatch::context {

struct MountLine {
  uint64_t id = 0;      // the kernel's, as statx tells it
  uint64_t device = 0;  // st_dev of files on it, except where a file system makes up one of its own (btrfs)
  char point[256] = {};
  char type[64] = {};
  char source[256] = {};
};

// One line of mountinfo; false when it is none, or is cut.
bool parse_mount(const char* line, const char* end, MountLine* mount) noexcept;

// Whether the data comes over a network, as far as the type tells. FUSE is a program that answers: remote,
// except for the programs that are known to serve what the machine itself has. 9p is, virtiofs is not (the
// virtual machine's own host, at memory speed).
bool is_remote(const char* type) noexcept;

// Whether there are no data to read in file systems of this type (proc, cgroup, ...).
bool is_pseudo(const char* type) noexcept;

// Lays down a Mount table for each real file system, at most 64.
void put_mounts(const Roots& roots) noexcept;

// Text id of the mount point of an open file; 0 for pipes, sockets and what was mounted later. About 0.4 us.
uint32_t mount_of(int fd) noexcept;

}  // namespace gpuwatch::context
