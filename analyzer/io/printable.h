// SPDX-License-Identifier: Apache-2.0
// Text out of a trace (names of scripts, kernels, threads, files) may come from anybody: a kernel may be
// called
// "\x1b]0;...". printable() makes it safe for a terminal, a log line and a person's eyes. Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gpuwatch::io {

inline constexpr size_t kPrintableBytes = 200;  // about two lines of a terminal; longer names help nobody

// The text without control characters, escape sequences, invalid UTF-8 and characters that reorder or hide
// others (bidirectional overrides, zero width); each run of them becomes one '?'. Line breaks and tabs become
// a space. Longer text is cut in the middle, at a character, with "..." in place of what is missing: the end
// of a path or of a template name says as much as its beginning.
std::string printable(std::string_view text, size_t max_bytes = kPrintableBytes);

}  // namespace gpuwatch::io
