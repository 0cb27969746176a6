// SPDX-License-Identifier: Apache-2.0
// Compile-time only: the shapes of nvtx_api.h and the places in nvtx.def are the vendor's.
#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

#include <type_traits>

#include "hooks/nvtx/nvtx_api.h"

namespace gpuwatch::hooks::nvtx {
namespace {

#define GW_SAME(field, theirs)                                                                \
  static_assert(offsetof(EventAttributes, field) == offsetof(nvtxEventAttributes_t, theirs)); \
  static_assert(sizeof(EventAttributes::field) == sizeof(nvtxEventAttributes_t::theirs))
GW_SAME(size, size);
GW_SAME(category, category);
GW_SAME(payload_type, payloadType);
GW_SAME(payload, payload);
GW_SAME(message_type, messageType);
GW_SAME(message, message);
static_assert(sizeof(EventAttributes) == sizeof(nvtxEventAttributes_t));
static_assert(kAscii == NVTX_MESSAGE_TYPE_ASCII && kUnicode == NVTX_MESSAGE_TYPE_UNICODE &&
              kRegistered == NVTX_MESSAGE_TYPE_REGISTERED);
static_assert(kUint64 == NVTX_PAYLOAD_TYPE_UNSIGNED_INT64 && kInt64 == NVTX_PAYLOAD_TYPE_INT64 &&
              kDouble == NVTX_PAYLOAD_TYPE_DOUBLE && kUint32 == NVTX_PAYLOAD_TYPE_UNSIGNED_INT32 &&
              kInt32 == NVTX_PAYLOAD_TYPE_INT32 && kFloat == NVTX_PAYLOAD_TYPE_FLOAT);
static_assert(kCallbacksTable == NVTX_ETID_CALLBACKS);
static_assert(offsetof(Callbacks, get_module_table) ==
              offsetof(NvtxExportTableCallbacks, GetModuleFunctionTable));

template <class Ours, class Theirs>
constexpr bool same_size() {
  return sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>;
}
static_assert(same_size<Handle, nvtxDomainHandle_t>() && same_size<Handle, nvtxStringHandle_t>() &&
              same_size<RangeId, nvtxRangeId_t>());

#define GW_CBID_1(name) NVTX_CBID_CORE_##name
#define GW_CBID_5(name) NVTX_CBID_CORE2_##name
static_assert(NVTX_CB_MODULE_CORE == kCoreModule && NVTX_CB_MODULE_CORE2 == kDomainModule);
#define GW_NVTX_RANGE(...)
#define GW_NVTX(module, id, name, ...) static_assert(id == GW_CBID_##module(name));
#include "hooks/nvtx/nvtx.def"

}  // namespace
}  // namespace gpuwatch::hooks::nvtx
