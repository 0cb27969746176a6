// SPDX-License-Identifier: Apache-2.0
// cuGetProcAddress: the function that a name meant in the CUDA version that the program was written for.
// Which version of a function came with which release is read from cudaTypedefs.h (PFN_cuMemAlloc_v3020).
#include "entry_points.h"

#include <algorithm>

#include "core/device_attributes.h"
#include "driver.h"

using namespace gpuwatch::sim;

namespace {

// The newest one up to `version`; null if there is none. `known`: whether the name exists at all.
void* find(std::string_view symbol, bool per_thread, int version, bool* known) {
  const auto [first, last] =
      std::equal_range(kEntryPoints, kEntryPoints + kEntryPointCount, EntryPoint{symbol},
                       [](const EntryPoint& a, const EntryPoint& b) { return a.name < b.name; });
  void* newest = nullptr;
  int newest_version = -1;
  for (const EntryPoint* entry = first; entry != last; ++entry) {
    if (entry->per_thread != per_thread) continue;
    *known = true;
    if (entry->version > version || entry->version <= newest_version) continue;
    newest = entry->function;
    newest_version = entry->version;
  }
  return newest;
}

CUresult look_up(const char* symbol, void** function, int version, cuuint64_t flags,
                 CUdriverProcAddressQueryResult* status) {
  constexpr cuuint64_t kBoth =
      CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (!symbol || !function || version > kCudaVersion || (flags & ~kBoth) || flags == kBoth)
    return CUDA_ERROR_INVALID_VALUE;
  bool known = false;
  *function = nullptr;
  if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) *function = find(symbol, true, version, &known);
  if (!*function) *function = find(symbol, false, version, &known);
  if (status) {
    *status = *function ? CU_GET_PROC_ADDRESS_SUCCESS
              : known   ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                        : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return CUDA_SUCCESS;
}

}  // namespace

GWSIM_EXPORT CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                                          CUdriverProcAddressQueryResult* status) {
  return look_up(symbol, function, version, flags, status);
}

// The one of CUDA 11.3 has no status: what is not found is an error.
#undef cuGetProcAddress
GWSIM_EXPORT CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags) {
  const CUresult result = look_up(symbol, function, version, flags, nullptr);
  return result == CUDA_SUCCESS && !*function ? CUDA_ERROR_NOT_FOUND : result;
}
