// SPDX-License-Identifier: Apache-2.0
// Key (64 bits, not 0) -> id: open addressing in fixed storage. Finding takes no lock; adding is for one
// thread at a time (the caller's lock). Nothing is removed. Filled to three quarters at most.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gpuwatch::cuda::cupti {

template <size_t kEntries>
class IdTable {
  static_assert((kEntries & (kEntries - 1)) == 0);

 public:
  static constexpr uint32_t kNotFound = 0xffffffff;
  static constexpr size_t kMost = kEntries / 4 * 3;

  uint32_t find(uint64_t key) const noexcept {
    for (size_t at = key & (kEntries - 1);; at = (at + 1) & (kEntries - 1)) {
      const uint64_t seen = entries_[at].key.load(std::memory_order_acquire);
      if (seen == key) return entries_[at].id;
      if (seen == 0) return kNotFound;
    }
  }

  size_t count() const noexcept { return count_; }
  bool is_full() const noexcept { return count_ >= kMost; }

  void add(uint64_t key, uint32_t id) noexcept {
    size_t at = key & (kEntries - 1);
    while (entries_[at].key.load(std::memory_order_relaxed)) at = (at + 1) & (kEntries - 1);
    entries_[at].id = id;
    entries_[at].key.store(key, std::memory_order_release);
    ++count_;
  }

 private:
  struct Entry {
    std::atomic<uint64_t> key{0};
    uint32_t id = 0;
  };
  Entry entries_[kEntries];
  size_t count_ = 0;
};

// Spreads the bits of a number so that neighbours lie apart; never 0.
constexpr uint64_t mix(uint64_t x) noexcept {
  x ^= x >> 31;
  x *= 0x9e3779b97f4a7c15ull;
  x ^= x >> 29;
  return x ? x : 1;
}

}  // namespace gpuwatch::cuda::cupti
