// SPDX-License-Identifier: Apache-2.0
// How the library came into this process: preloaded, or opened by the CUDA driver (CUDA_INJECTION64_PATH) or
// by NVTX (NVTX_INJECTION64_PATH). Opened, it stands in front of no symbol: what interposes sees nothing
// then. Thread safety: any, after the library's constructor. Not signal safe: the loader is asked. errno is
// kept.
#pragma once

namespace gpuwatch::hooks::injection {

// Whether calls of the job's libraries reach our definitions before libc's. Costs a walk over the loaded
// objects, once.
bool is_preloaded() noexcept;

// The function of this name of a preloaded copy of this library, where this one was opened beside it (from
// another path: a file is opened once); null where there is none. The name has to be ours alone.
void* of_preloaded_copy(const char* name, const void* own) noexcept;

// As the loader knows it, null where it does not say. Valid for ever.
const char* own_path() noexcept;

// Whether an object whose file name starts so is loaded: "libtorch".
bool is_loaded(const char* name_start) noexcept;

}  // namespace gpuwatch::hooks::injection
