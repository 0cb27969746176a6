// SPDX-License-Identifier: Apache-2.0
#include "libinject/record/disk_reserve.h"

#include <sys/vfs.h>

#include "libinject/base/syscall.h"

namespace gpuwatch::record {
namespace {

constexpr uint64_t kLeast = 1ull << 30;
constexpr uint64_t kMost = 20ull << 30;

uint64_t reserve_of(uint64_t disk_bytes) noexcept {
  const uint64_t share = disk_bytes / 20;
  return share < kLeast ? kLeast : share > kMost ? kMost : share;
}

}  // namespace

bool leaves_disk_reserve(int fd, uint64_t bytes) noexcept {
  struct statfs disk;
  if (base::raw_syscall(SYS_fstatfs, fd, base::address(&disk)) || disk.f_blocks == 0) return true;
  // FUSE counts in fragments, of which a block may have many.
  const auto block = static_cast<uint64_t>(disk.f_frsize ? disk.f_frsize : disk.f_bsize);
  return disk.f_bavail * block >= reserve_of(disk.f_blocks * block) + bytes;
}

}  // namespace gpuwatch::record
