// SPDX-License-Identifier: Apache-2.0
// Holds nccl_api.h and nccl.def against the real nccl.h: same number of parameters, each of the same size and
// passed the same way. Compiles to nothing.
#include <nccl.h>

#include <type_traits>

#include "hooks/nccl/nccl_api.h"

namespace gpuwatch::hooks::nccl {
namespace {

template <class Ours, class Theirs>
constexpr bool kSameShape =
    sizeof(Ours) == sizeof(Theirs) &&
    std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>&& std::is_class_v<Ours> == std::is_class_v<Theirs>;

template <class Ours, class Theirs>
constexpr bool kSameFunction = false;
template <class... Ours, class... Theirs>
constexpr bool kSameFunction<Result(Ours...), ncclResult_t(Theirs...)> = [] {
  if constexpr (sizeof...(Ours) != sizeof...(Theirs)) {
    return false;
  } else {
    return (kSameShape<Ours, Theirs> && ...);
  }
}();

// Functions that came later than the header at hand are left to builds with a newer one.
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 9)
#define GW_NCCL(name, params, args, op_class, about) \
  static_assert(kSameFunction<Result params, decltype(::name)>, #name);
#include "hooks/nccl/nccl.def"
#undef GW_NCCL
#endif

static_assert(kSuccess == ncclSuccess && kInternalError == ncclInternalError &&
              kInProgress == ncclInProgress);
static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId));
static_assert(sizeof(Result) == sizeof(ncclResult_t));
static_assert(size_of(ncclInt8) == 1 && size_of(ncclUint8) == 1 && size_of(ncclInt32) == 4 &&
              size_of(ncclUint32) == 4 && size_of(ncclInt64) == 8 && size_of(ncclUint64) == 8);
static_assert(size_of(ncclFloat16) == 2 && size_of(ncclFloat32) == 4 && size_of(ncclFloat64) == 8 &&
              size_of(ncclBfloat16) == 2);

}  // namespace
}  // namespace gpuwatch::hooks::nccl
