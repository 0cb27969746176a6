// SPDX-License-Identifier: Apache-2.0
// The part of NVTX v3's injection interface that is used, declared by shape, so that the library builds
// without its headers and does not follow one version of them. nvtx_api_check.cpp holds it against the real
// ones where there are any. The interface is the same in all of version 3. No code, no state.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpuwatch::hooks::nvtx {

using Handle = void*;      // nvtxDomainHandle_t, nvtxStringHandle_t
using RangeId = uint64_t;  // nvtxRangeId_t

// nvtxMessageType_t
inline constexpr int32_t kAscii = 1, kUnicode = 2, kRegistered = 3;
// nvtxPayloadType_t
inline constexpr int32_t kUint64 = 1, kInt64 = 2, kDouble = 3, kUint32 = 4, kInt32 = 5, kFloat = 6;

struct EventAttributes {  // nvtxEventAttributes_t
  uint16_t version;
  uint16_t size;  // of the caller's version of this struct
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type;
  int32_t reserved;
  union {
    uint64_t bits;
    uint32_t low_bits;
  } payload;
  int32_t message_type;
  union {
    const char* ascii;
    const wchar_t* unicode;
    Handle registered;
  } message;
};

using Callback = void (*)();
using CallbackTable = Callback**;  // by callback id: where the module keeps its pointer

struct Callbacks {  // NvtxExportTableCallbacks
  size_t struct_size;
  int (*get_module_table)(int module, CallbackTable* table, unsigned* count);
};
inline constexpr int kCoreModule = 1, kDomainModule = 5;  // NVTX_CB_MODULE_CORE, NVTX_CB_MODULE_CORE2
inline constexpr uint32_t kCallbacksTable = 1;            // NVTX_ETID_CALLBACKS

using GetExportTable = const void* (*)(uint32_t table);
using Initialize = int (*)(GetExportTable);  // InitializeInjectionNvtx2

}  // namespace gpuwatch::hooks::nvtx
