// SPDX-License-Identifier: Apache-2.0
// Memory pools behind cudaMallocAsync: freed blocks stay with the pool and are handed out again for requests
// of the same size, without a device synchronisation. Thread-safe. Sizes in bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace gpuwatch::sim {

class Pool {
 public:
  explicit Pool(uint32_t device) : device_(device) {}

  void* allocate(size_t size_bytes);
  bool free(void* pointer);
  void trim(size_t keep_bytes);

  uint32_t device() const { return device_; }

  struct Usage {
    size_t used, used_high, reserved, reserved_high;
  };
  Usage usage();
  void reset_high_marks();

  uint64_t release_threshold_bytes = 0;

 private:
  std::mutex mutex_;
  std::map<void*, size_t> live_;
  std::multimap<size_t, void*> idle_;
  Usage usage_{};
  uint32_t device_;
};

Pool& default_pool(uint32_t device);
Pool& current_pool(uint32_t device);
void set_current_pool(uint32_t device, Pool& pool);

// Frees a block of whichever pool it came from; false if of none.
bool free_from_any_pool(void* pointer);

}  // namespace gpuwatch::sim
