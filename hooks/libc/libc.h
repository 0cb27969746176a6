// SPDX-License-Identifier: Apache-2.0
// The source `io`: libc calls that keep a thread waiting, and file input. Thread safety: any, after arm().
#pragma once

namespace gpuwatch::hooks::libc {

void arm() noexcept;           // from the library's constructor
void on_recording() noexcept;  // once per trace file

}  // namespace gpuwatch::hooks::libc
