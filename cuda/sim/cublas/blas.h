// SPDX-License-Identifier: Apache-2.0
// Shared by the stand-ins for libcublas and libcublasLt: the public values they need (the libraries'
// headers come only with packages of several hundred MB, so the few are restated here), and what a
// product's kernel is. Source of the values: NVIDIA's documentation of cuBLAS (cublasStatus_t,
// cublasMath_t, cublasComputeType_t, attributes).
#pragma once

#include <library_types.h>

#include <cstddef>
#include <cstdint>

#include "core/library_launch.h"
#include "core/matmul.h"

#define GWSIM_EXPORT extern "C" __attribute__((visibility("default")))

namespace gpuwatch::sim {

enum BlasStatus : int { kBlasSuccess = 0, kBlasInvalidValue = 7, kBlasNotSupported = 15 };
enum BlasOperation : int { kBlasNone = 0, kBlasTransposed = 1, kBlasConjugated = 2 };
enum BlasMath : int { kBlasDefaultMath = 0, kBlasPedanticMath = 2, kBlasTf32Math = 3 };
enum BlasCompute : int { kBlasCompute32F = 68, kBlasComputeFastTf32 = 77 };
// Flags that may be added to a BlasMath value.
inline constexpr int kBlasMathModeMask = 0xf;

// False for types whose products are not simulated.
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
    case CUDA_C_32F:
      precision = MatmulPrecision::kC32;
      return true;
    case CUDA_C_64F:
      precision = MatmulPrecision::kC64;
      return true;
    default:
      return false;
  }
}

inline uint32_t element_bytes(int type) {
  switch (type) {
    case CUDA_C_64F:
      return 16;
    case CUDA_R_64F:
    case CUDA_C_32F:
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

inline int run_matmul(const Matmul& mm, const void* stream) {
  if (mm.m == 0 || mm.n == 0 || mm.batch == 0) return kBlasSuccess;
  return launch_from_library(matmul_kernel(mm), stream) ? kBlasSuccess : kBlasInvalidValue;
}

}  // namespace gpuwatch::sim
