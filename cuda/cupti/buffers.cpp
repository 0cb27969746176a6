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

}  // namespace

bool make_buffers(bool may_refuse, bool must_be_zero) noexcept {
  g_may_refuse = may_refuse;
  g_must_be_zero = must_be_zero;
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
  return g_may_refuse ? nullptr : map_bytes(kBufferBytes);
}

void give_back_buffer(uint8_t* buffer) noexcept {
  if (!buffer) return;
  const size_t offset = static_cast<size_t>(buffer - g_pool);
  if (buffer < g_pool || offset >= kPoolBuffers * kBufferBytes) {
    base::raw_syscall(SYS_munmap, base::address(buffer), kBufferBytes);
    return;
  }
  const size_t index = offset / kBufferBytes;
  if (index >= kKeptBuffers) {
    base::raw_syscall(SYS_madvise, base::address(buffer), kBufferBytes, MADV_DONTNEED);  // zeroes, too
  } else if (g_must_be_zero) {
    std::memset(buffer, 0, kBufferBytes);  // 15 us here, which CUPTI would spend on the job's thread
  }
  g_free.fetch_or(1ull << index, std::memory_order_acq_rel);
}

}  // namespace gpuwatch::cuda::cupti
