// SPDX-License-Identifier: Apache-2.0
#include "cuda/cupti/buffers.h"

#include <sys/mman.h>

#include <atomic>
#include <cstring>

#include "libinject/base/syscall.h"

namespace gpuwatch::cuda::cupti {
namespace {

static_assert(kPoolBuffers == 64, "one bit each");

constinit uint8_t* g_pool = nullptr;
constinit std::atomic<uint64_t> g_free{0};  // bit n: buffer n of the pool
constinit bool g_may_refuse = true;
constinit bool g_must_be_zero = false;

uint8_t* map_bytes(size_t bytes) noexcept {
  return static_cast<uint8_t*>(
      base::sys_mmap(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
}

// Beyond the pool, for releases that must not be refused. The addresses tell them from another tool's.
constexpr size_t kExtraBuffers = 1024;
constinit std::atomic<uint8_t*> g_extra[kExtraBuffers];

uint8_t* take_extra_buffer() noexcept {
  uint8_t* const buffer = map_bytes(kBufferBytes);
  if (!buffer) return nullptr;
  for (auto& extra : g_extra) {
    uint8_t* none = nullptr;
    if (!extra.load(std::memory_order_relaxed) && extra.compare_exchange_strong(none, buffer)) return buffer;
  }
  base::raw_syscall(SYS_munmap, base::address(buffer), kBufferBytes);
  return nullptr;
}

void give_back_extra_buffer(uint8_t* buffer) noexcept {
  for (auto& extra : g_extra) {
    if (extra.load(std::memory_order_relaxed) == buffer) extra.store(nullptr, std::memory_order_release);
  }
  base::raw_syscall(SYS_munmap, base::address(buffer), kBufferBytes);
}

}  // namespace

bool make_buffers(bool may_refuse, bool must_be_zero) noexcept {
  g_may_refuse = may_refuse;
  g_must_be_zero = must_be_zero;
  if (g_pool) {
    base::raw_syscall(SYS_madvise, base::address(g_pool), kPoolBuffers * kBufferBytes, MADV_DONTNEED);
    return true;
  }
  g_pool = map_bytes(kPoolBuffers * kBufferBytes);
  if (!g_pool) return false;
  g_free.store(~uint64_t{0}, std::memory_order_release);
  return true;
}

uint8_t* take_buffer() noexcept {
  uint64_t free = g_free.load(std::memory_order_acquire);
  while (free) {
    // The lowest one: it was used last and is in the cache.
    if (!g_free.compare_exchange_weak(free, free & (free - 1), std::memory_order_acq_rel)) continue;
    return g_pool + static_cast<size_t>(__builtin_ctzll(free)) * kBufferBytes;
  }
  return g_may_refuse ? nullptr : take_extra_buffer();
}

bool is_our_buffer(const uint8_t* buffer) noexcept {
  if (!buffer) return false;
  if (g_pool && buffer >= g_pool && buffer < g_pool + kPoolBuffers * kBufferBytes) return true;
  for (const auto& extra : g_extra) {
    if (extra.load(std::memory_order_acquire) == buffer) return true;
  }
  return false;
}

void give_back_buffer(uint8_t* buffer) noexcept {
  if (!buffer) return;
  const size_t offset = static_cast<size_t>(buffer - g_pool);
  if (buffer < g_pool || offset >= kPoolBuffers * kBufferBytes) return give_back_extra_buffer(buffer);
  const size_t index = offset / kBufferBytes;
  if (index >= kKeptBuffers) {
    base::raw_syscall(SYS_madvise, base::address(buffer), kBufferBytes, MADV_DONTNEED);  // zeroes, too
  } else if (g_must_be_zero) {
    std::memset(buffer, 0, kBufferBytes);  // 15 us here, which CUPTI would spend on the job's thread
  }
  g_free.fetch_or(1ull << index, std::memory_order_acq_rel);
}

}  // namespace gpuwatch::cuda::cupti
