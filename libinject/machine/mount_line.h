// SPDX-License-Identifier: Apache-2.0
// Lines of /proc/self/mountinfo, and what the type of a file system tells. Thread and signal safe.
#pragma once

#include <cstdint>

namespace gpuwatch::machine {

struct MountLine {
  uint64_t id = 0;      // the kernel's, as statx tells it
  uint64_t device = 0;  // st_dev of files on it, except where a file system makes up one of its own (btrfs)
  char point[256] = {};
  char type[64] = {};
  char source[256] = {};
};

// One line of mountinfo; false when it is invalid or too long.
bool parse_mount(const char* line, const char* end, MountLine* mount) noexcept;

// Whether the data comes over a network, as far as the type tells. FUSE is a program that answers: remote,
// except for the programs that are known to serve what the machine itself has. 9p is, virtiofs is not (the
// virtual machine's own host, at memory speed).
bool is_remote(const char* type) noexcept;

// Whether there are no data to read in file systems of this type (proc, cgroup, ...).
bool is_pseudo(const char* type) noexcept;

}  // namespace gpuwatch::machine
