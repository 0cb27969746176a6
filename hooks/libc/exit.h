// SPDX-License-Identifier: Apache-2.0
// What is done before a process ends by _exit(), where no exit handler runs.
#pragma once

namespace gpuwatch::hooks::libc {

// Called in a recorded process, before its trace is ended. Must be async-signal-safe. From the library's
// constructor, at most once.
using BeforeQuickExit = void (*)() noexcept;
void set_before_quick_exit(BeforeQuickExit function) noexcept;

}  // namespace gpuwatch::hooks::libc
