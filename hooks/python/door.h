// SPDX-License-Identifier: Apache-2.0
// The way into CPython: importlib opens torch's source or byte code like any other file, and the open hook
// (hooks/libc) shows every opened path to python_may_have_opened(). At the first file below a directory named
// `torch`, or the first file of TensorFlow, Keras, Ray or DALI, this thread is a Python thread in the middle
// of an import, and the finder is installed there and then. No start-up hook, environment variable,
// sitecustomize or audit hook (18 to 32 ns an event for life) is needed.
//
// The cost of an open that is not ours: one relaxed load while the source is off or inside, else about 5 ns,
// 0.1 us for a Python file, against some 1000 ns of the system call.
// Thread safety: any. Signal safety: a path that matches is not opened by handlers. errno is kept.
#pragma once

#include <atomic>

#include "libinject/base/compiler.h"

namespace gpuwatch::hooks::python {

void arm() noexcept;           // from the library's constructor
void on_recording() noexcept;  // when recording starts in this process: says what the source can see

extern constinit std::atomic<bool> g_is_listening;
void look_at(const char* path) noexcept;

// `path` must be readable memory: call it after an open that succeeded.
inline void python_may_have_opened(const char* path) noexcept {
  if (GW_UNLIKELY(g_is_listening.load(std::memory_order_relaxed))) look_at(path);
}

}  // namespace gpuwatch::hooks::python
