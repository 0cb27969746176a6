// SPDX-License-Identifier: Apache-2.0
// A lock for cold paths inside the injected library. std::mutex or pthread_mutex_lock would land in hooks of
// ours or of another preloaded tool. In a forked child a lock that the parent held is free: the owner's pid
// is part of the word, and a word with another pid counts as free. Thread safety: any. Signal safety:
// try_lock only, because a handler would wait for ever for a lock that its own thread holds.
#pragma once

#include <linux/futex.h>

#include <atomic>
#include <cstdint>

#include "libinject/base/syscall.h"

namespace gpuwatch::base {

class FutexLock {
 public:
  constexpr FutexLock() noexcept = default;

  bool try_lock(uint32_t pid) noexcept {
    uint32_t seen = word_.load(std::memory_order_relaxed);
    if ((seen & ~kContended) == pid) return false;
    return word_.compare_exchange_strong(seen, pid, std::memory_order_acquire);
  }

  void lock(uint32_t pid) noexcept {
    while (!try_lock(pid)) {
      uint32_t seen = word_.load(std::memory_order_relaxed);
      if ((seen & ~kContended) != pid) continue;
      if (!(seen & kContended) && !word_.compare_exchange_strong(seen, seen | kContended)) continue;
      raw_syscall(SYS_futex, address(&word_), FUTEX_WAIT_PRIVATE, static_cast<long>(pid | kContended));
    }
  }

  void unlock() noexcept {
    if (word_.exchange(0, std::memory_order_release) & kContended) {
      raw_syscall(SYS_futex, address(&word_), FUTEX_WAKE_PRIVATE, INT32_MAX);
    }
  }

 private:
  static constexpr uint32_t kContended = 0x80000000;  // pids are below 2^22
  std::atomic<uint32_t> word_{0};
};

class FutexGuard {
 public:
  FutexGuard(FutexLock& lock, uint32_t pid) noexcept : lock_(lock) { lock_.lock(pid); }
  ~FutexGuard() noexcept { lock_.unlock(); }
  FutexGuard(const FutexGuard&) = delete;
  FutexGuard& operator=(const FutexGuard&) = delete;

 private:
  FutexLock& lock_;
};

}  // namespace gpuwatch::base
