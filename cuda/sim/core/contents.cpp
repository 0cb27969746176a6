// SPDX-License-Identifier: Apache-2.0
#include "contents.h"

#include <cstring>
#include <iterator>

#include "config.h"

namespace gpuwatch::sim {

namespace {
uintptr_t address(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}
}  // namespace

Contents& Contents::instance() {
  static Contents* contents = new Contents;
  return *contents;
}

void Contents::wrote(const void* at, size_t size_bytes, Origin origin) {
  if (!config().device_reads_zero || size_bytes == 0) return;
  std::lock_guard lock(mutex_);
  forget_locked(address(at), address(at) + size_bytes);
  ranges_[address(at)] = {address(at) + size_bytes, origin};
  any_ = true;
}

bool Contents::moved(const void* to, const void* from, size_t size_bytes) {
  const bool message = is_message(from, size_bytes);
  if (!message && !is_known(from, size_bytes)) {
    forget(to, size_bytes);
    return false;
  }
  wrote(to, size_bytes, message ? Origin::kMessage : Origin::kHost);
  return true;
}

void Contents::forget(const void* at, size_t size_bytes) {
  if (!any_.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(mutex_);
  forget_locked(address(at), address(at) + size_bytes);
}

void Contents::launched(const Kernel& kernel, const void* const* arguments) {
  if (!any_.load(std::memory_order_relaxed)) return;
  if (kernel.fill_argument() >= 0 && arguments) {
    const void* filled = nullptr;
    std::memcpy(&filled, arguments[kernel.fill_argument()], sizeof filled);
    return forget(filled, 1);
  }
  forget_all();
}

void Contents::forget_all() {
  if (!any_.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(mutex_);
  ranges_.clear();
  any_ = false;
}

bool Contents::is_known(const void* at, size_t size_bytes) const {
  return covered(address(at), address(at) + size_bytes, false);
}

bool Contents::is_message(const void* at, size_t size_bytes) const {
  return covered(address(at), address(at) + size_bytes, true);
}

bool Contents::covered(uintptr_t begin, uintptr_t end, bool messages_only) const {
  if (!any_.load(std::memory_order_relaxed)) return false;
  std::lock_guard lock(mutex_);
  auto range = ranges_.upper_bound(begin);
  if (range == ranges_.begin()) return false;
  for (--range; range != ranges_.end() && range->first <= begin; ++range) {
    if (range->second.end <= begin) return false;
    if (messages_only && range->second.origin != Origin::kMessage) return false;
    begin = range->second.end;
    if (begin >= end) return true;
  }
  return false;
}

// Forgets whole ranges: the rest of a message that was partly overwritten is not a message any more.
void Contents::forget_locked(uintptr_t begin, uintptr_t end) {
  auto range = ranges_.lower_bound(begin);
  if (range != ranges_.begin() && std::prev(range)->second.end > begin) --range;
  while (range != ranges_.end() && range->first < end) range = ranges_.erase(range);
}

}  // namespace gpuwatch::sim
