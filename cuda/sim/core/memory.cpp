// SPDX-License-Identifier: Apache-2.0
#include "memory.h"

#include <sys/mman.h>

#include <mutex>

#include "config.h"

namespace gpuwatch::sim {

namespace {

constexpr size_t kPageBytes = 4096;

size_t mapped_bytes(size_t size_bytes) {
  return (size_bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

bool is_host_kind(MemoryKind kind) {
  return kind == MemoryKind::kPinned;
}

}  // namespace

Memory& Memory::instance() {
  static Memory* memory = new Memory;
  return *memory;
}

void* Memory::allocate(size_t size_bytes, MemoryKind kind, uint32_t device) {
  const size_t size = mapped_bytes(size_bytes ? size_bytes : 1);
  const bool on_device = !is_host_kind(kind);
  {
    std::unique_lock lock(mutex_);
    if (on_device && used_bytes_[device] + size > config().memory_bytes) return nullptr;
    if (on_device) used_bytes_[device] += size;
  }
  // Not reserved: a program may fill an 80 GiB device on a small machine, pages cost nothing until touched.
  void* pointer =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  std::unique_lock lock(mutex_);
  if (pointer == MAP_FAILED) {
    if (on_device) used_bytes_[device] -= size;
    return nullptr;
  }
  const auto begin = reinterpret_cast<uintptr_t>(pointer);
  blocks_[begin] = {begin, size_bytes, kind, device, false};
  return pointer;
}

bool Memory::release(void* pointer, bool host_kinds) {
  std::unique_lock lock(mutex_);
  const auto found = blocks_.find(reinterpret_cast<uintptr_t>(pointer));
  if (found == blocks_.end() || found->second.registered) return false;
  const MemoryBlock block = found->second;
  if (is_host_kind(block.kind) != host_kinds) return false;
  const size_t size = mapped_bytes(block.size_bytes ? block.size_bytes : 1);
  if (!host_kinds) used_bytes_[block.device] -= size;
  blocks_.erase(found);
  munmap(pointer, size);
  return true;
}

bool Memory::register_host(void* pointer, size_t size_bytes) {
  std::unique_lock lock(mutex_);
  const auto begin = reinterpret_cast<uintptr_t>(pointer);
  return blocks_.try_emplace(begin, MemoryBlock{begin, size_bytes, MemoryKind::kPinned, 0, true}).second;
}

bool Memory::unregister_host(void* pointer) {
  std::unique_lock lock(mutex_);
  const auto found = blocks_.find(reinterpret_cast<uintptr_t>(pointer));
  if (found == blocks_.end() || !found->second.registered) return false;
  blocks_.erase(found);
  return true;
}

std::optional<MemoryBlock> Memory::find(const void* pointer) const {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  std::shared_lock lock(mutex_);
  auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) return std::nullopt;
  const MemoryBlock& block = std::prev(next)->second;
  if (address - block.begin >= block.size_bytes) return std::nullopt;
  return block;
}

MemoryKind Memory::kind_of(const void* pointer) const {
  const auto block = find(pointer);
  return block ? block->kind : MemoryKind::kPageable;
}

size_t Memory::used_bytes(uint32_t device) const {
  std::shared_lock lock(mutex_);
  const auto found = used_bytes_.find(device);
  return found == used_bytes_.end() ? 0 : found->second;
}

}  // namespace gpuwatch::sim
