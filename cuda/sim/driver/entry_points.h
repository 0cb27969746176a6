// SPDX-License-Identifier: Apache-2.0
// What cuGetProcAddress can find: generated from the vendor's headers, sorted by name. Constant.
#pragma once

#include <cstddef>
#include <string_view>

namespace gpuwatch::sim {

struct EntryPoint {
  std::string_view name;    // without version or stream variant: "cuMemAlloc"
  int version = 0;          // the CUDA version that it came with, 3020
  bool per_thread = false;  // of the per-thread default stream
  void* function = nullptr;
};

extern const EntryPoint kEntryPoints[];
extern const size_t kEntryPointCount;

}  // namespace gpuwatch::sim
