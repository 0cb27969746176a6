// SPDX-License-Identifier: Apache-2.0
// CUPTI's functions, found at run time in the copy that belongs to the job's CUDA runtime; nothing links
// libcupti, so that the library loads everywhere. Two copies of CUPTI in a process must be avoided: the job's
// own is taken first. Thread safety: load_api() once, by one thread; the result is constant. Errors:
// `missing` says what was not there.
#pragma once

#include <cupti.h>

#include <cstdint>

namespace gpuwatch::cuda::cupti {

struct Api {
#define GW_CUPTI(function) decltype(&::function) function = nullptr;
#define GW_CUPTI_OPTIONAL(function) GW_CUPTI(function)
#include "cuda/cupti/api.def"
#undef GW_CUPTI_OPTIONAL
#undef GW_CUPTI
  uint32_t version = 0;           // set by the session; 18 is CUDA 11.8, 27 is 12.9, 130001 is 13.0 Update 1
  const char* missing = nullptr;  // what was not found; null when all is there
};

// CUPTI_API_VERSION of the releases that behave differently.
inline constexpr uint32_t kCupti12_3 = 21;  // a buffer for each thread, if wanted
inline constexpr uint32_t kCupti12_4 = 22;  // overhead records of a full command buffer
inline constexpr uint32_t kCupti12_9 = 27;  // a refused buffer request is safe; earlier releases can crash
inline constexpr uint32_t kCupti13_0 =
    130000;  // a subscriber has a name; a buffer for each thread is the default
inline constexpr uint32_t kCupti13_2 = 130200;  // the _v2 functions are a family of their own

// Loads the library and its functions. About 3 ms with a cold page cache.
bool load_api(Api* api) noexcept;

}  // namespace gpuwatch::cuda::cupti
