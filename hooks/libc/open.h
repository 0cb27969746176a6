// SPDX-License-Identifier: Apache-2.0
// A listener for the files that the process opens. It is set at run time because the Python source, which
// needs it, is a layer above this one.
//
// Cost of an open without a listener: one relaxed load. Thread safety: any. Signal safety: the listener's.
#pragma once

namespace gpuwatch::hooks::libc {

// `path` is valid during the call. The listener must keep errno.
using OpenListener = void (*)(const char* path) noexcept;

// At most one; null: none.
void set_open_listener(OpenListener listener) noexcept;

}  // namespace gpuwatch::hooks::libc
