// SPDX-License-Identifier: Apache-2.0
// The busiest disk. Which one that is may change from second to second, so its work is added up over the
// intervals between readings, each time of the disk that was busy longest in that interval: differences of
// these sums are those of one disk. "Busy" is the kernel's: at least one request was under way; a device that
// serves many at once may have more to give when it is busy all the time. Network file systems have no disk
// here. One reader at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "libinject/machine/roots.h"

namespace gpuwatch::context {

class BusiestDisk {
 public:
  // Reads /proc/diskstats. The first call only notes where the counters stand.
  void read(const machine::Roots& roots) noexcept;
  uint64_t busy_ns() const noexcept { return busy_ns_; }
  uint64_t read_bytes() const noexcept { return read_bytes_; }

 private:
  static constexpr size_t kDisks = 64;  // with partitions; further ones are not seen
  struct Disk {
    uint64_t number = 0;  // major << 32 | minor; 0: none
    uint64_t busy_ms = 0;
    uint64_t sectors_read = 0;
  };
  Disk* find(uint64_t number) noexcept;

  Disk disks_[kDisks];
  uint64_t busy_ns_ = 0;
  uint64_t read_bytes_ = 0;
};

}  // namespace gpuwatch::context
