// SPDX-License-Identifier: Apache-2.0
// The libcublas stand-in: handles, and products as one kernel each (core/matmul.h).
// Pointers are not looked at. Everything else that a framework wants of the library is a loud stub. A handle
// belongs to one thread at a time.
#include "blas.h"

using namespace gpuwatch::sim;

namespace {

struct Handle {
  void* stream = nullptr;
  int math_mode = kBlasDefaultMath;
  int pointer_mode = 0;

  bool tf32() const { return (math_mode & kBlasMathModeMask) == kBlasTf32Math; }
};

struct Shape {
  int transposed_a, transposed_b;
  int m, n, k;
  int batch = 1;
};

int run(const Handle* handle, const Shape& shape, int operand_type, int result_type, bool tf32) {
  if (!handle || shape.m < 0 || shape.n < 0 || shape.k < 0 || shape.batch < 0) return kBlasInvalidValue;
  Matmul mm;
  if (!precision_of(operand_type, tf32 || handle->tf32(), mm.precision)) return kBlasNotSupported;
  mm.m = static_cast<uint64_t>(shape.m);
  mm.n = static_cast<uint64_t>(shape.n);
  mm.k = static_cast<uint64_t>(shape.k);
  mm.batch = static_cast<uint64_t>(shape.batch);
  mm.transposed_a = shape.transposed_a != kBlasNone;
  mm.transposed_b = shape.transposed_b != kBlasNone;
  mm.result_bytes = element_bytes(result_type);
  return run_matmul(mm, handle->stream);
}

}  // namespace

GWSIM_EXPORT int cublasCreate_v2(Handle** handle) {
  if (!handle) return kBlasInvalidValue;
  *handle = new Handle;
  return kBlasSuccess;
}
GWSIM_EXPORT int cublasDestroy_v2(Handle* handle) {
  delete handle;
  return kBlasSuccess;
}
GWSIM_EXPORT int cublasSetStream_v2(Handle* handle, void* stream) {
  handle->stream = stream;
  return kBlasSuccess;
}
GWSIM_EXPORT int cublasGetStream_v2(Handle* handle, void** stream) {
  *stream = handle->stream;
  return kBlasSuccess;
}
GWSIM_EXPORT int cublasSetWorkspace_v2(Handle*, void*, size_t) {
  return kBlasSuccess;
}
GWSIM_EXPORT int cublasSetMathMode(Handle* handle, int mode) {
  handle->math_mode = mode;
  return kBlasSuccess;
}
GWSIM_EXPORT int cublasGetMathMode(Handle* handle, int* mode) {
  *mode = handle->math_mode;
  return kBlasSuccess;
}
GWSIM_EXPORT int cublasSetPointerMode_v2(Handle* handle, int mode) {
  handle->pointer_mode = mode;
  return kBlasSuccess;
}
GWSIM_EXPORT int cublasGetPointerMode_v2(Handle* handle, int* mode) {
  *mode = handle->pointer_mode;
  return kBlasSuccess;
}
GWSIM_EXPORT int cublasSetSmCountTarget(Handle*, int) {
  return kBlasSuccess;
}

// The scalars and pointers of each kind of product; only their places in the call matter here.
#define GWSIM_GEMM(letter, scalar, type)                                                                   \
  GWSIM_EXPORT int cublas##letter##gemm_v2(Handle* h, int ta, int tb, int m, int n, int k, const scalar*,  \
                                           const scalar*, int, const scalar*, int, const scalar*, scalar*, \
                                           int) {                                                          \
    return run(h, {ta, tb, m, n, k}, type, type, false);                                                   \
  }                                                                                                        \
  GWSIM_EXPORT int cublas##letter##gemmStridedBatched(                                                     \
      Handle* h, int ta, int tb, int m, int n, int k, const scalar*, const scalar*, int, long long,        \
      const scalar*, int, long long, const scalar*, scalar*, int, long long, int batch) {                  \
    return run(h, {ta, tb, m, n, k, batch}, type, type, false);                                            \
  }                                                                                                        \
  GWSIM_EXPORT int cublas##letter##gemmBatched(                                                            \
      Handle* h, int ta, int tb, int m, int n, int k, const scalar*, const scalar* const*, int,            \
      const scalar* const*, int, const scalar*, scalar* const*, int, int batch) {                          \
    return run(h, {ta, tb, m, n, k, batch}, type, type, false);                                            \
  }                                                                                                        \
  GWSIM_EXPORT int cublas##letter##gemv_v2(Handle* h, int t, int m, int n, const scalar*, const scalar*,   \
                                           int, const scalar*, int, const scalar*, scalar*, int) {         \
    return t == kBlasNone ? run(h, {kBlasNone, kBlasNone, m, 1, n}, type, type, false)                     \
                          : run(h, {kBlasTransposed, kBlasNone, n, 1, m}, type, type, false);              \
  }

GWSIM_GEMM(S, float, CUDA_R_32F)
GWSIM_GEMM(D, double, CUDA_R_64F)
GWSIM_GEMM(C, void, CUDA_C_32F)
GWSIM_GEMM(Z, void, CUDA_C_64F)

GWSIM_EXPORT int cublasSgemmEx(Handle* h, int ta, int tb, int m, int n, int k, const float*, const void*,
                               int a_type, int, const void*, int, int, const float*, void*, int c_type, int) {
  return run(h, {ta, tb, m, n, k}, a_type, c_type, false);
}
GWSIM_EXPORT int cublasGemmEx(Handle* h, int ta, int tb, int m, int n, int k, const void*, const void*,
                              int a_type, int, const void*, int, int, const void*, void*, int c_type, int,
                              int compute, int) {
  return run(h, {ta, tb, m, n, k}, a_type, c_type, compute == kBlasComputeFastTf32);
}
GWSIM_EXPORT int cublasGemmStridedBatchedEx(Handle* h, int ta, int tb, int m, int n, int k, const void*,
                                            const void*, int a_type, int, long long, const void*, int, int,
                                            long long, const void*, void*, int c_type, int, long long,
                                            int batch, int compute, int) {
  return run(h, {ta, tb, m, n, k, batch}, a_type, c_type, compute == kBlasComputeFastTf32);
}
