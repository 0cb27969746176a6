// SPDX-License-Identifier: Apache-2.0
// Whether a file holds some bytes, also one of /proc, whose size is not known. Reads piece by piece into the
// caller's buffer, which is static where the stack may be small. Thread safety: that of the buffer. Signal
// safe. False where the file cannot be read.
#pragma once

#include <cstddef>

namespace gpuwatch::base {

inline constexpr size_t kMostSearched = 32;  // bytes to search for
using SearchBuffer = char[4096 + kMostSearched];

// A NUL counts as standing before the file's first byte, so that each variable of an environment follows one.
bool file_has(const char* path, const char* wanted, size_t size, SearchBuffer& buffer) noexcept;

}  // namespace gpuwatch::base
