// SPDX-License-Identifier: Apache-2.0
// The way into CPython: importlib opens torch's source or byte code like any other file, and the open hook
// (hooks/libc/open.h) shows us every opened path. At the first file below a directory named `torch`, or the
// first file of another framework (GW_FRAMEWORK_FOLDER in libinject/trace/frameworks.def), this thread is a
// Python thread in the middle of an import, and the finder is installed there and then. No start-up hook,
// environment variable, sitecustomize or audit hook (18 to 32 ns an event for life) is needed.
//
// The cost of an open of another file: one relaxed load while the source is off or the finder is installed,
// else about 5 ns, 0.1 us for a Python file, against some 1000 ns of the system call.
// Thread safety: any. Signal safety: a path that matches is not opened by handlers. errno is kept.
#pragma once

#include "hooks/python/interpreter/wrapped_modules.h"

namespace gpuwatch::hooks::python {

// From the library's constructor. `modules`: what the finder wraps; static storage.
void watch_for_imports(const WrappedModules& modules) noexcept;

// When recording starts: says what the source can see.
void put_source_state() noexcept;

// The state and Python's version, once the interpreter was entered; the version once a process.
void put_interpreter_facts() noexcept;

}  // namespace gpuwatch::hooks::python
