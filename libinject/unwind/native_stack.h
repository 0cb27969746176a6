// SPDX-License-Identifier: Apache-2.0
// The calling thread's own native stack, for programs without Python: libunwind's, from the frames' own
// unwind tables, so that it needs no frame pointers. libunwind is opened where the machine has it
// (libunwind.so.8; the names _Unwind_* in it stay out of the job's scope) and is never required. Nothing is
// freed under a walk: the thread walks the frames that it stands in, and libunwind checks an address that it
// had to guess.
//
// Thread safety: load_unwinder() once, the
// others any. Signal safety: none. No allocation from the job's heap. Errors: false, and no stack.
#pragma once

#include <cstdint>

#include "libinject/base/text.h"

namespace gpuwatch::unwind {

struct NativeStack {
  static constexpr int kMaxFrames = 32;
  int count = 0;
  void* addresses[kMaxFrames];  // return addresses, innermost first; the first few are this library's own
  uint64_t hash = 0;
};

// From a place where a library may be opened. False if there is none, or none that has what is needed.
bool load_unwinder() noexcept;

bool capture(NativeStack& to) noexcept;

// A line for each frame, innermost first: "0x7f0123456789".
using NativeText = base::Text<NativeStack::kMaxFrames * 19>;
void describe(const NativeStack& stack, NativeText& to) noexcept;

}  // namespace gpuwatch::unwind
