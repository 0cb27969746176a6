// SPDX-License-Identifier: Apache-2.0
// Memory of the simulated machine. All of it is host memory; for each range the kind and the device are kept.
// Sizes in bytes. Thread-safe. allocate() returns null when the device's configured memory is used up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <shared_mutex>
#include <vector>

#include "op.h"

namespace gpuwatch::sim {

struct MemoryBlock {
  uintptr_t begin = 0;
  size_t size_bytes = 0;
  MemoryKind kind = MemoryKind::kPageable;
  uint32_t device = 0;
  bool registered = false;  // the program's own memory, pinned by cudaHostRegister
};

class Memory {
 public:
  static Memory& instance();

  void* allocate(size_t size_bytes, MemoryKind kind, uint32_t device);
  // False if `pointer` is not the start of an allocation of one of these kinds.
  bool release(void* pointer, bool host_kinds);
  bool register_host(void* pointer, size_t size_bytes);
  bool unregister_host(void* pointer);

  std::optional<MemoryBlock> find(const void* pointer) const;
  // kPageable for memory that the device does not know.
  MemoryKind kind_of(const void* pointer) const;

  size_t used_bytes(uint32_t device) const;

 private:
  Memory() = default;

  mutable std::shared_mutex mutex_;
  std::map<uintptr_t, MemoryBlock> blocks_;
  std::map<uint32_t, size_t> used_bytes_;
};

}  // namespace gpuwatch::sim
