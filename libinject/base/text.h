// SPDX-License-Identifier: Apache-2.0
// Bounded text assembly on the stack, for paths and messages: no locale, no allocation, always
// NUL-terminated, silently cut at the capacity. Thread and signal safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace gpuwatch::base {

template <size_t kCapacity>
class Text {
 public:
  Text() noexcept { data_[0] = 0; }
  Text& add(const char* text) noexcept { return add(text, std::strlen(text)); }
  Text& add(const char* text, size_t bytes) noexcept {
    if (bytes > kCapacity - 1 - size_) {
      bytes = kCapacity - 1 - size_;
      cut_ = true;
    }
    std::memcpy(data_ + size_, text, bytes);
    size_ += bytes;
    data_[size_] = 0;
    return *this;
  }
  Text& add(char c) noexcept { return add(&c, 1); }
  Text& add(uint64_t number, int min_digits = 1) noexcept {
    char digits[20];
    int n = 0;
    do {
      digits[n++] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number || n < min_digits);
    while (n) add(digits[--n]);
    return *this;
  }
  const char* c_str() const noexcept { return data_; }
  size_t size() const noexcept { return size_; }
  bool was_cut() const noexcept { return cut_; }

 private:
  char data_[kCapacity];
  size_t size_ = 0;
  bool cut_ = false;
};

using Path = Text<4096>;

// What stands behind a path's last slash.
inline const char* file_name(const char* path) noexcept {
  const char* slash = std::strrchr(path, '/');
  return slash ? slash + 1 : path;
}

}  // namespace gpuwatch::base
