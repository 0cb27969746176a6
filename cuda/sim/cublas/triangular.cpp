// SPDX-License-Identifier: Apache-2.0
// Triangular solves and batched decompositions of the libcublas stand-in (core/decomposition.h), and products
// of vectors. Of pointers only those to the status are used, which is always "done".
#include <algorithm>

#include "blas.h"
#include "core/decomposition.h"

using namespace gpuwatch::sim;

GWSIM_EXPORT int cublasGetStream_v2(void* handle, void** stream);

namespace {

// A handle belongs to cublas.cpp.
const void* stream_of_handle(void* handle) {
  void* stream = nullptr;
  cublasGetStream_v2(handle, &stream);
  return stream;
}

DenseTask task_of(Decomposition what, int type, int m, int n, int other = 0) {
  DenseTask task{what, MatmulPrecision::kF32, static_cast<uint64_t>(std::max(m, 0)),
                 static_cast<uint64_t>(std::max(n, 0)), static_cast<uint64_t>(std::max(other, 0))};
  precision_of(type, false, task.precision);
  return task;
}

int run(void* handle, const DenseTask& task) {
  if (!handle) return kBlasInvalidValue;
  return launch_all_from_library(decomposition_kernels(task), stream_of_handle(handle)) ? kBlasSuccess
                                                                                        : kBlasInvalidValue;
}

int run_batched(void* handle, const char* name, const DenseTask& task, int batch) {
  if (!handle || batch < 0) return kBlasInvalidValue;
  const LibraryKernel kernel = batched_kernel(name, task, static_cast<uint64_t>(batch));
  return launch_from_library(kernel, stream_of_handle(handle)) ? kBlasSuccess : kBlasInvalidValue;
}

void report_done(int* info, int count) {
  if (info && count > 0) std::fill_n(info, count, 0);
}

// `operands` vectors, each read once.
int run_vectors(void* handle, const char* name, int type, int n, uint64_t operands) {
  if (!handle || n < 0) return kBlasInvalidValue;
  const LibraryKernel kernel = memory_kernel(name, operands * static_cast<uint64_t>(n) * element_bytes(type));
  return launch_from_library(kernel, stream_of_handle(handle)) ? kBlasSuccess : kBlasInvalidValue;
}

constexpr int kLeft = 0;  // cublasSideMode_t

}  // namespace

#define GWSIM_TRIANGULAR(letter, type)                                                                      \
  GWSIM_EXPORT int cublas##letter##trsm_v2(void* h, int side, int, int, int, int m, int n, const void*,     \
                                           const void*, int, void*, int) {                                  \
    const int order = side == kLeft ? m : n, sides = side == kLeft ? n : m;                                 \
    return run(h, task_of(Decomposition::kTriangular, type, order, order, sides));                          \
  }                                                                                                         \
  GWSIM_EXPORT int cublas##letter##trsmBatched(void* h, int side, int, int, int, int m, int n, const void*, \
                                               const void* const*, int, void* const*, int, int batch) {     \
    const int order = side == kLeft ? m : n, sides = side == kLeft ? n : m;                                 \
    return run_batched(h, "trsmBatched", task_of(Decomposition::kTriangular, type, order, order, sides),    \
                       batch);                                                                              \
  }                                                                                                         \
  GWSIM_EXPORT int cublas##letter##getrfBatched(void* h, int n, void* const*, int, int*, int* info,         \
                                                int batch) {                                                \
    report_done(info, batch);                                                                               \
    return run_batched(h, "getrfBatched", task_of(Decomposition::kLu, type, n, n), batch);                  \
  }                                                                                                         \
  GWSIM_EXPORT int cublas##letter##getrsBatched(void* h, int, int n, int sides, const void* const*, int,    \
                                                const int*, void* const*, int, int* info, int batch) {      \
    report_done(info, 1);                                                                                   \
    return run_batched(h, "getrsBatched", task_of(Decomposition::kTriangular, type, n, n, 2 * sides),       \
                       batch);                                                                              \
  }                                                                                                         \
  GWSIM_EXPORT int cublas##letter##geqrfBatched(void* h, int m, int n, void* const*, int, void* const*,     \
                                                int* info, int batch) {                                     \
    report_done(info, 1);                                                                                   \
    return run_batched(h, "geqrfBatched", task_of(Decomposition::kQr, type, m, n), batch);                  \
  }                                                                                                         \
  GWSIM_EXPORT int cublas##letter##gelsBatched(void* h, int, int m, int n, int sides, void* const*, int,    \
                                               void* const*, int, int* info, int* each_info, int batch) {   \
    report_done(info, 1);                                                                                   \
    report_done(each_info, batch);                                                                          \
    return run_batched(h, "gelsBatched", task_of(Decomposition::kQr, type, m, n + sides), batch);           \
  }

GWSIM_TRIANGULAR(S, CUDA_R_32F)
GWSIM_TRIANGULAR(D, CUDA_R_64F)
GWSIM_TRIANGULAR(C, CUDA_C_32F)
GWSIM_TRIANGULAR(Z, CUDA_C_64F)

// Their result stays where it is: what the program reads there is as meaningless as all values.
#define GWSIM_DOT(name, type)                                                                     \
  GWSIM_EXPORT int cublas##name##_v2(void* h, int n, const void*, int, const void*, int, void*) { \
    return run_vectors(h, "dot_kernel", type, n, 2);                                              \
  }
GWSIM_DOT(Sdot, CUDA_R_32F)
GWSIM_DOT(Ddot, CUDA_R_64F)
GWSIM_DOT(Cdotu, CUDA_C_32F)
GWSIM_DOT(Cdotc, CUDA_C_32F)
GWSIM_DOT(Zdotu, CUDA_C_64F)
GWSIM_DOT(Zdotc, CUDA_C_64F)
GWSIM_EXPORT int cublasDotEx(void* h, int n, const void*, int type, int, const void*, int, int, void*, int,
                             int) {
  return run_vectors(h, "dot_kernel", type, n, 2);
}
