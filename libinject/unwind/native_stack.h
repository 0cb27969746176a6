// SPDX-License-Identifier: Apache-2.0
// The calling thread's own native stack, for programs without Python: from the frames' unwind tables, so that
// it needs no frame pointers. The unwinder is the one that throws the process's exceptions (libgcc_s, which
// every C++ program has loaded); nothing is loaded for it. Not libunwind: it keeps a pipe to check addresses
// with, and writes to its descriptors, which a job that closes what it does not know may have given to a file
// of its own; other preloaded libraries see its reads (seen). Nothing is freed under a walk: the thread walks
// the frames that it stands in, and the walk ends at a frame without a table.
//
// Thread safety: find_unwinder() once, the others any. Signal safety: none. No allocation (but libgcc's own,
// once, where a JIT compiler has registered frames). Errors: false, and no stack.
#pragma once

#include <cstdint>

#include "libinject/base/text.h"

namespace gpuwatch::unwind {

struct NativeStack {
  static constexpr int kMaxFrames = 32;
  int count = 0;
  uint64_t addresses[kMaxFrames];  // return addresses, innermost first; the first few are this library's own
  uint64_t hash = 0;
};

// False if this process has none.
bool find_unwinder() noexcept;

bool capture(NativeStack& to) noexcept;

// A line for each frame, innermost first: "0x7f0123456789".
using NativeText = base::Text<NativeStack::kMaxFrames * 19>;
void describe(const NativeStack& stack, NativeText& to) noexcept;

}  // namespace gpuwatch::unwind
