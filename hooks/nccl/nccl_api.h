// SPDX-License-Identifier: Apache-2.0
// The part of NCCL's public interface that is hooked, declared by shape, so that the library builds without
// nccl.h and does not follow one version of it. nccl_api_check.cpp holds it against the real header where
// there is one. Enumerations are ints at this interface, communicators and streams pointers. No code, no
// state.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpuwatch::hooks::nccl {

using Result = int;  // ncclResult_t
inline constexpr Result kSuccess = 0;
inline constexpr Result kInternalError = 3;
inline constexpr Result kInProgress = 7;  // a non-blocking communicator: no failure

using Comm = void*;     // ncclComm_t
using Stream = void*;   // cudaStream_t
using Window = void*;   // ncclWindow_t
using Config = void;    // ncclConfig_t; grows with each version
using DataType = int;   // ncclDataType_t
using Reduction = int;  // ncclRedOp_t
struct UniqueId {       // ncclUniqueId, passed by value
  char internal[128];
};

// Bytes of one element; 0 for a type newer than this table.
constexpr uint32_t size_of(DataType type) noexcept {
  constexpr uint8_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return type >= 0 && static_cast<size_t>(type) < sizeof kSizes ? kSizes[type] : 0;
}

}  // namespace gpuwatch::hooks::nccl
