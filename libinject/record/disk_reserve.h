// SPDX-License-Identifier: Apache-2.0
// How much of a file system is not ours to fill: the last 5%, at least 1 GiB, at most 20 GiB. What the job
// writes there succeeds as without us, so nothing is recorded at all on one that is smaller. Thread and
// signal safe; errno is kept. Cost: one fstatfs.
#pragma once

#include <cstdint>

namespace gpuwatch::record {

// Whether the reserve stays free when `bytes` more are taken from the file system of `fd`. True where the
// file system does not know its size (tmpfs without a limit, some FUSE ones).
bool leaves_disk_reserve(int fd, uint64_t bytes) noexcept;

}  // namespace gpuwatch::record
