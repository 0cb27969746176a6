// SPDX-License-Identifier: Apache-2.0
// The way into CPython. importlib opens PyTorch's source or byte code like any other file, and the open hook
// (hooks/libc/open.h) shows us every path. At the first file below a folder named `torch`, or at the first
// file of another framework (GW_FRAMEWORK_FOLDER in libinject/trace/frameworks.def), the thread is a Python
// thread in the middle of an import; there the finder is installed. This needs no start-up hook, environment
// variable, sitecustomize or audit hook (which costs 18 to 32 ns an event until the process ends).
//
// Cost of opening any other file: one relaxed load while the source is off or the finder is installed, else
// about 5 ns, and 0.1 us for a Python file, where the system call takes about 1000 ns. Thread safety: any.
// Signal safety: handlers do not open the paths that matter. errno is kept.
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
