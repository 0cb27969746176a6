// SPDX-License-Identifier: Apache-2.0
// Which device memory holds a message, where else the device reads as zero (`device_reads_zero`): a program
// must get back what its ranks sent to each other, and nothing that an earlier user left in reused memory.
//
// Known is what a copy from the host wrote, and what copies on the device and collectives made of known
// bytes. Since nothing says what a kernel writes, every launch makes all memory unknown, but for kernels
// that the configuration calls fills: they write where their argument points. Only what a collective
// delivered reads back. Where the device does not read as zero, nothing is kept. Thread-safe; sizes in bytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "kernel.h"

namespace gpuwatch::sim {

class Contents {
 public:
  enum class Origin : uint8_t { kHost, kMessage };

  static Contents& instance();

  void wrote(const void* at, size_t size_bytes, Origin origin);
  // Known bytes were copied; unknown ones make the destination unknown. Says whether they are known.
  bool moved(const void* to, const void* from, size_t size_bytes);
  void forget(const void* at, size_t size_bytes);
  void forget_all();
  void launched(const Kernel& kernel, const void* const* arguments);

  bool is_known(const void* at, size_t size_bytes) const;
  bool is_message(const void* at, size_t size_bytes) const;

 private:
  struct Range {
    uintptr_t end;
    Origin origin;
  };

  Contents() = default;
  bool covered(uintptr_t begin, uintptr_t end, bool messages_only) const;
  void forget_locked(uintptr_t begin, uintptr_t end);

  mutable std::mutex mutex_;
  std::map<uintptr_t, Range> ranges_;  // by begin; they do not overlap
  std::atomic<bool> any_{false};       // so that a launch costs nothing while there is none
};

}  // namespace gpuwatch::sim
