// SPDX-License-Identifier: Apache-2.0
// Reading numbers out of procfs and cgroup files. No allocation, no locale. Thread and signal safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace gpuwatch::machine {

// The unsigned number at `text`, past leading blanks; moves `text` behind it. 0 when there is none.
inline uint64_t take_number(const char*& text) noexcept {
  while (*text == ' ' || *text == '\t') ++text;
  uint64_t value = 0;
  for (; *text >= '0' && *text <= '9'; ++text) value = value * 10 + static_cast<uint64_t>(*text - '0');
  return value;
}

// Moves over `count` words separated by single blanks.
inline void skip_words(const char*& text, int count) noexcept {
  for (; count > 0 && *text; --count) {
    while (*text && *text != ' ') ++text;
    if (*text) ++text;
  }
}

// The number after a line's leading `key` ("throttled_usec "); false when there is no such line.
inline bool find_number(const char* text, const char* key, uint64_t* value) noexcept {
  const size_t length = std::strlen(key);
  for (const char* line = text; line && *line; line = std::strchr(line, '\n')) {
    if (*line == '\n') ++line;
    if (std::strncmp(line, key, length) != 0) continue;
    line += length;
    *value = take_number(line);
    return true;
  }
  return false;
}

}  // namespace gpuwatch::machine
