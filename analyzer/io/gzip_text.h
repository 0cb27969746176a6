// SPDX-License-Identifier: Apache-2.0
// A whole text file in memory, gzip or plain, with the room behind its end that simdjson reads into. Bounded:
// a file of a few MB that would unpack to all of memory is refused once it has unpacked too much.
#pragma once

#include <cstdint>
#include <string>

namespace gpuwatch::io {

inline constexpr uint64_t kMostTextBytes = (uint64_t{1} << 32) - 4096;  // simdjson's indices have 32 bits

struct Text {
  std::string bytes;        // capacity() is at least size() + kTextPadding
  uint64_t file_bytes = 0;  // as stored
};
inline constexpr size_t kTextPadding = 64;

// Throws UserError. `most_bytes`: of the text; a test may ask for less.
Text read_text(const std::string& path, uint64_t most_bytes = kMostTextBytes);

}  // namespace gpuwatch::io
