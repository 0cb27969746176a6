// SPDX-License-Identifier: Apache-2.0
// How the library came into this process: preloaded, or opened by the CUDA driver (CUDA_INJECTION64_PATH) or
// by NVTX (NVTX_INJECTION64_PATH). An opened library comes after the others in symbol look-up, so its
// interposed symbols are never called. Thread safety: any, after the library's constructor. Signal safety:
// none, because the dynamic linker is asked. errno is kept.
#pragma once

namespace gpuwatch::runtime {

// Whether calls of the job's libraries reach our definitions before libc's. The first call walks over the
// loaded objects.
bool is_preloaded() noexcept;

// The function of this name in a preloaded copy of this library, where this copy was opened from another path
// (the same path is loaded only once); null if there is none. The name must be exported by no other library.
void* find_in_preloaded_copy(const char* name, const void* own) noexcept;

// A name that every copy of this library exports, under any file name.
inline constexpr char kOwnExport[] = "gpuwatch_on_driver_start";

// The file name of the library that an injection variable names, if it is another tool's; null: none, or a
// copy of this library, which leaves everything to the preloaded one.
const char* other_tool_in(const char* variable) noexcept;

// The path of this library as the dynamic linker knows it, null if it does not. Valid until the process ends.
const char* own_path() noexcept;

// Whether an object whose file name starts so is loaded: "libtorch".
bool is_loaded(const char* name_start) noexcept;

}  // namespace gpuwatch::runtime
