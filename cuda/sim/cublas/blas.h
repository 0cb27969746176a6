// SPDX-License-Identifier: Apache-2.0
// Shared by the stand-ins for libcublas and libcublasLt: the public values they need (the libraries'
// headers come only with packages of several hundred MB, so the few are restated here), and what a
// product's kernel is. Source of the values: NVIDIA's documentation of cuBLAS (cublasStatus_t,
// cublasMath_t, cublasComputeType_t, attributes).
#pragma once

#include <library_types.h>

#include <cstddef>
#include <cstdint>

#include "callback_ids.h"
#include "core/api_call.h"
#include "core/context.h"
#include "core/matmul.h"

#define GWSIM_EXPORT extern "C" __attribute__((visibility("default")))

namespace gpuwatch::sim {

enum BlasStatus : int { kBlasSuccess = 0, kBlasInvalidValue = 7, kBlasNotSupported = 15 };
enum BlasOperation : int { kBlasNone = 0, kBlasTransposed = 1, kBlasConjugated = 2 };
enum BlasMath : int { kBlasDefaultMath = 0, kBlasPedanticMath = 2, kBlasTf32Math = 3 };
enum BlasCompute : int { kBlasCompute32F = 68, kBlasComputeFastTf32 = 77 };
// Flags that may be added to a BlasMath value.
inline constexpr int kBlasMathModeMask = 0xf;

// False for types whose products are not simulated (complex ones).
inline bool precision_of(int operand_type, bool tf32, MatmulPrecision& precision) {
  switch (operand_type) {
    case CUDA_R_64F:
      precision = MatmulPrecision::kF64;
      return true;
    case CUDA_R_32F:
      precision = tf32 ? MatmulPrecision::kTf32 : MatmulPrecision::kF32;
      return true;
    case CUDA_R_16F:
      precision = MatmulPrecision::kF16;
      return true;
    case CUDA_R_16BF:
      precision = MatmulPrecision::kBf16;
      return true;
    case CUDA_R_8F_E4M3:
    case CUDA_R_8F_E5M2:
      precision = MatmulPrecision::kF8;
      return true;
    case CUDA_R_8I:
      precision = MatmulPrecision::kInt8;
      return true;
    default:
      return false;
  }
}

inline uint32_t element_bytes(int type) {
  switch (type) {
    case CUDA_R_64F:
      return 8;
    case CUDA_R_16F:
    case CUDA_R_16BF:
      return 2;
    case CUDA_R_8F_E4M3:
    case CUDA_R_8F_E5M2:
    case CUDA_R_8I:
      return 1;
    default:
      return 4;
  }
}

// As the real libraries do, which contain a runtime of their own: CUPTI sees a launch, a hook of the
// program's runtime does not.
inline int run_matmul(const Matmul& matmul, const void* stream_handle) {
  static constexpr ApiInfo kLaunch{ApiDomain::kRuntime, kRuntimeCbid_cudaLaunchKernel, "cudaLaunchKernel"};
  Stream* stream = stream_of(stream_handle);
  if (!stream) return kBlasInvalidValue;
  ensure_initialized();
  const std::string name = matmul_kernel_name(matmul);
  const ApiCall call(kLaunch, ApiCall::Truth::kLogged, name.c_str());
  launch_matmul(matmul, *stream, call.correlation(), call.begin_ns());
  return kBlasSuccess;
}

}  // namespace gpuwatch::sim
