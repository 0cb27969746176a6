// SPDX-License-Identifier: Apache-2.0
// The libcusolver stand-in: the dense routines that PyTorch calls, as the kernels of core/decomposition.h. Of
// pointers only those to sizes and to the result's status are used, which is always "done": the matrices are
// not looked at. Everything else that a framework wants of the library is a loud stub. A handle belongs to
// one thread at a time. Source of the values: NVIDIA's documentation of cuSOLVER (cusolverStatus_t,
// cusolverEigMode_t).
#include <library_types.h>

#include <algorithm>
#include <array>
#include <limits>

#include "core/decomposition.h"
#include "core/library_launch.h"
#include "cublas/blas.h"

#define GWSIM_EXPORT extern "C" __attribute__((visibility("default")))

using namespace gpuwatch::sim;

namespace {

enum Status : int { kSuccess = 0, kInvalidValue = 3, kExecutionFailed = 6, kNotSupported = 9 };

struct Handle {
  void* stream = nullptr;
};
struct Params {};
struct JacobiInfo {};

// LAPACK's four types; the library takes no others.
bool lapack_precision_of(int type, MatmulPrecision& precision) {
  const bool is_lapack = type == CUDA_R_32F || type == CUDA_R_64F || type == CUDA_C_32F || type == CUDA_C_64F;
  return is_lapack && precision_of(type, false, precision);
}

// Sizes as the calls give them; a negative one is the caller's mistake.
struct Sizes {
  int64_t m, n, other = 0;

  bool are_valid() const { return m >= 0 && n >= 0 && other >= 0; }
};

bool make_task(Decomposition what, int type, const Sizes& sizes, bool vectors, DenseTask& task) {
  task = {what,
          MatmulPrecision::kF32,
          static_cast<uint64_t>(sizes.m),
          static_cast<uint64_t>(sizes.n),
          static_cast<uint64_t>(sizes.other),
          vectors};
  return sizes.are_valid() && lapack_precision_of(type, task.precision);
}

int run(const Handle* handle, Decomposition what, int type, const Sizes& sizes, int* info,
        bool vectors = false) {
  DenseTask task;
  if (!handle || !make_task(what, type, sizes, vectors, task)) return kInvalidValue;
  if (info) *info = 0;
  return launch_all_from_library(decomposition_kernels(task), handle->stream) ? kSuccess : kExecutionFailed;
}

int run_batched(const Handle* handle, const char* name, Decomposition what, int type, const Sizes& sizes,
                int batch, int* info, bool vectors = false) {
  DenseTask task;
  if (!handle || batch < 0 || !make_task(what, type, sizes, vectors, task)) return kInvalidValue;
  if (info) std::fill_n(info, batch, 0);
  const std::array kernel = {batched_kernel(name, task, static_cast<uint64_t>(batch))};
  return launch_all_from_library(kernel, handle->stream) ? kSuccess : kExecutionFailed;
}

// With the triangular matrices of a decomposition, one after the other.
int solve(const Handle* handle, int type, int64_t n, int64_t sides, int* info) {
  const int status = run(handle, Decomposition::kTriangular, type, {n, n, sides}, info);
  return status == kSuccess ? run(handle, Decomposition::kTriangular, type, {n, n, sides}, info) : status;
}

int work(int64_t m, int64_t n, int* elements) {
  if (!elements || m < 0 || n < 0) return kInvalidValue;
  *elements = static_cast<int>(
      std::min<uint64_t>(decomposition_work_elements(static_cast<uint64_t>(m), static_cast<uint64_t>(n)),
                         std::numeric_limits<int>::max()));
  return kSuccess;
}

int work_bytes(int64_t m, int64_t n, int type, size_t* device, size_t* host) {
  MatmulPrecision precision;
  if (!device || !host || m < 0 || n < 0 || !lapack_precision_of(type, precision)) return kInvalidValue;
  *device = decomposition_work_elements(static_cast<uint64_t>(m), static_cast<uint64_t>(n)) *
            operand_bytes(precision);
  *host = 0;
  return kSuccess;
}

}  // namespace

GWSIM_EXPORT int cusolverDnCreate(Handle** handle) {
  if (!handle) return kInvalidValue;
  *handle = new Handle;
  return kSuccess;
}
GWSIM_EXPORT int cusolverDnDestroy(Handle* handle) {
  delete handle;
  return kSuccess;
}
GWSIM_EXPORT int cusolverDnSetStream(Handle* handle, void* stream) {
  handle->stream = stream;
  return kSuccess;
}
GWSIM_EXPORT int cusolverDnGetStream(Handle* handle, void** stream) {
  *stream = handle->stream;
  return kSuccess;
}
GWSIM_EXPORT int cusolverDnCreateParams(Params** params) {
  if (!params) return kInvalidValue;
  *params = new Params;
  return kSuccess;
}
GWSIM_EXPORT int cusolverDnDestroyParams(Params* params) {
  delete params;
  return kSuccess;
}
GWSIM_EXPORT int cusolverDnCreateGesvdjInfo(JacobiInfo** info) {
  if (!info) return kInvalidValue;
  *info = new JacobiInfo;
  return kSuccess;
}
GWSIM_EXPORT int cusolverDnDestroyGesvdjInfo(JacobiInfo* info) {
  delete info;
  return kSuccess;
}
GWSIM_EXPORT int cusolverDnXgesvdjSetTolerance(JacobiInfo*, double) {
  return kSuccess;
}
GWSIM_EXPORT int cusolverDnXgesvdjSetMaxSweeps(JacobiInfo*, int) {
  return kSuccess;
}
GWSIM_EXPORT int cusolverDnXgesvdjSetSortEig(JacobiInfo*, int) {
  return kSuccess;
}

// ---- one name for each type: S, D, C, Z; "or" and "sy" are "un" and "he" of complex ones

#define GWSIM_FACTORIZATIONS(letter, type)                                                                   \
  GWSIM_EXPORT int cusolverDn##letter##getrf_bufferSize(Handle*, int m, int n, void*, int, int* elements) {  \
    return work(m, n, elements);                                                                             \
  }                                                                                                          \
  GWSIM_EXPORT int cusolverDn##letter##getrf(Handle* h, int m, int n, void*, int, void*, int*, int* info) {  \
    return run(h, Decomposition::kLu, type, {m, n}, info);                                                   \
  }                                                                                                          \
  GWSIM_EXPORT int cusolverDn##letter##getrs(Handle* h, int, int n, int sides, const void*, int, const int*, \
                                             void*, int, int* info) {                                        \
    return solve(h, type, n, sides, info);                                                                   \
  }                                                                                                          \
  GWSIM_EXPORT int cusolverDn##letter##potrf_bufferSize(Handle*, int, int n, void*, int, int* elements) {    \
    return work(n, n, elements);                                                                             \
  }                                                                                                          \
  GWSIM_EXPORT int cusolverDn##letter##potrf(Handle* h, int, int n, void*, int, void*, int, int* info) {     \
    return run(h, Decomposition::kCholesky, type, {n, n}, info);                                             \
  }                                                                                                          \
  GWSIM_EXPORT int cusolverDn##letter##potrs(Handle* h, int, int n, int sides, const void*, int, void*, int, \
                                             int* info) {                                                    \
    return solve(h, type, n, sides, info);                                                                   \
  }                                                                                                          \
  GWSIM_EXPORT int cusolverDn##letter##potrfBatched(Handle* h, int, int n, void**, int, int* info,           \
                                                    int batch) {                                             \
    return run_batched(h, "potrfBatched", Decomposition::kCholesky, type, {n, n}, batch, info);              \
  }                                                                                                          \
  GWSIM_EXPORT int cusolverDn##letter##potrsBatched(Handle* h, int, int n, int sides, void**, int, void**,   \
                                                    int, int* info, int batch) {                             \
    const int status =                                                                                       \
        run_batched(h, "potrsBatched", Decomposition::kTriangular, type, {n, n, 2 * sides}, batch, nullptr); \
    if (info) *info = 0; /* one for the batch */                                                             \
    return status;                                                                                           \
  }                                                                                                          \
  GWSIM_EXPORT int cusolverDn##letter##sytrf_bufferSize(Handle*, int n, void*, int, int* elements) {         \
    return work(n, n, elements);                                                                             \
  }                                                                                                          \
  GWSIM_EXPORT int cusolverDn##letter##sytrf(Handle* h, int, int n, void*, int, int*, void*, int,            \
                                             int* info) {                                                    \
    return run(h, Decomposition::kSymmetricIndefinite, type, {n, n}, info);                                  \
  }                                                                                                          \
  GWSIM_EXPORT int cusolverDn##letter##geqrf_bufferSize(Handle*, int m, int n, void*, int, int* elements) {  \
    return work(m, n, elements);                                                                             \
  }                                                                                                          \
  GWSIM_EXPORT int cusolverDn##letter##geqrf(Handle* h, int m, int n, void*, int, void*, void*, int,         \
                                             int* info) {                                                    \
    return run(h, Decomposition::kQr, type, {m, n}, info);                                                   \
  }

#define GWSIM_REFLECTORS(letter, group, type)                                                              \
  GWSIM_EXPORT int cusolverDn##letter##group##gqr_bufferSize(Handle*, int m, int n, int, const void*, int, \
                                                             const void*, int* elements) {                 \
    return work(m, n, elements);                                                                           \
  }                                                                                                        \
  GWSIM_EXPORT int cusolverDn##letter##group##gqr(Handle* h, int m, int n, int k, void*, int, const void*, \
                                                  void*, int, int* info) {                                 \
    return run(h, Decomposition::kFormQ, type, {m, n, k}, info);                                           \
  }                                                                                                        \
  GWSIM_EXPORT int cusolverDn##letter##group##mqr_bufferSize(Handle*, int, int, int m, int n, int,         \
                                                             const void*, int, const void*, const void*,   \
                                                             int, int* elements) {                         \
    return work(m, n, elements);                                                                           \
  }                                                                                                        \
  GWSIM_EXPORT int cusolverDn##letter##group##mqr(Handle* h, int side, int, int m, int n, int k,           \
                                                  const void*, int, const void*, void*, int, void*, int,   \
                                                  int* info) {                                             \
    return run(h, Decomposition::kApplyQ, type, side == 0 ? Sizes{m, n, k} : Sizes{n, m, k}, info);        \
  }

#define GWSIM_EIGENVALUES(letter, kind, type)                                                           \
  GWSIM_EXPORT int cusolverDn##letter##kind##evd_bufferSize(Handle*, int, int, int n, const void*, int, \
                                                            const void*, int* elements) {               \
    return work(n, n, elements);                                                                        \
  }                                                                                                     \
  GWSIM_EXPORT int cusolverDn##letter##kind##evd(Handle* h, int vectors, int, int n, void*, int, void*, \
                                                 void*, int, int* info) {                               \
    return run(h, Decomposition::kSymmetricEigen, type, {n, n}, info, vectors != 0);                    \
  }                                                                                                     \
  GWSIM_EXPORT int cusolverDn##letter##kind##evjBatched_bufferSize(                                     \
      Handle*, int, int, int n, const void*, int, const void*, int* elements, const void*, int) {       \
    return work(n, n, elements);                                                                        \
  }                                                                                                     \
  GWSIM_EXPORT int cusolverDn##letter##kind##evjBatched(Handle* h, int vectors, int, int n, void*, int, \
                                                        void*, void*, int, int* info, const void*,      \
                                                        int batch) {                                    \
    return run_batched(h, "syevjBatched", Decomposition::kSymmetricEigen, type, {n, n}, batch, info,    \
                       vectors != 0);                                                                   \
  }

#define GWSIM_SINGULAR_VALUES(letter, type)                                                                 \
  GWSIM_EXPORT int cusolverDn##letter##gesvd_bufferSize(Handle*, int m, int n, int* elements) {             \
    return work(m, n, elements);                                                                            \
  }                                                                                                         \
  GWSIM_EXPORT int cusolverDn##letter##gesvd(Handle* h, signed char left, signed char right, int m, int n,  \
                                             void*, int, void*, void*, int, void*, int, void*, int, void*,  \
                                             int* info) {                                                   \
    return run(h, Decomposition::kSvd, type, {m, n}, info, left != 'N' || right != 'N');                    \
  }                                                                                                         \
  GWSIM_EXPORT int cusolverDn##letter##gesvdj_bufferSize(Handle*, int, int, int m, int n, const void*, int, \
                                                         const void*, const void*, int, const void*, int,   \
                                                         int* elements, const JacobiInfo*) {                \
    return work(m, n, elements);                                                                            \
  }                                                                                                         \
  GWSIM_EXPORT int cusolverDn##letter##gesvdj(Handle* h, int vectors, int, int m, int n, void*, int, void*, \
                                              void*, int, void*, int, void*, int, int* info,                \
                                              const JacobiInfo*) {                                          \
    return run(h, Decomposition::kSvd, type, {m, n}, info, vectors != 0);                                   \
  }                                                                                                         \
  GWSIM_EXPORT int cusolverDn##letter##gesvdjBatched_bufferSize(                                            \
      Handle*, int, int m, int n, const void*, int, const void*, const void*, int, const void*, int,        \
      int* elements, const JacobiInfo*, int) {                                                              \
    return work(m, n, elements);                                                                            \
  }                                                                                                         \
  GWSIM_EXPORT int cusolverDn##letter##gesvdjBatched(Handle* h, int vectors, int m, int n, void*, int,      \
                                                     void*, void*, int, void*, int, void*, int, int* info,  \
                                                     const JacobiInfo*, int batch) {                        \
    return run_batched(h, "gesvdjBatched", Decomposition::kSvd, type, {m, n}, batch, info, vectors != 0);   \
  }                                                                                                         \
  GWSIM_EXPORT int cusolverDn##letter##gesvdaStridedBatched_bufferSize(                                     \
      Handle*, int, int, int m, int n, const void*, int, long long, const void*, long long, const void*,    \
      int, long long, const void*, int, long long, int* elements, int) {                                    \
    return work(m, n, elements);                                                                            \
  }                                                                                                         \
  GWSIM_EXPORT int cusolverDn##letter##gesvdaStridedBatched(                                                \
      Handle* h, int vectors, int, int m, int n, const void*, int, long long, void*, long long, void*, int, \
      long long, void*, int, long long, void*, int, int* info, double* residuals, int batch) {              \
    if (residuals && batch > 0) std::fill_n(residuals, batch, 0.0);                                         \
    return run_batched(h, "gesvdaStridedBatched", Decomposition::kSvd, type, {m, n}, batch, info,           \
                       vectors != 0);                                                                       \
  }

#define GWSIM_SOLVER(letter, group, kind, type) \
  GWSIM_FACTORIZATIONS(letter, type)            \
  GWSIM_REFLECTORS(letter, group, type)         \
  GWSIM_EIGENVALUES(letter, kind, type)         \
  GWSIM_SINGULAR_VALUES(letter, type)

GWSIM_SOLVER(S, or, sy, CUDA_R_32F)
GWSIM_SOLVER(D, or, sy, CUDA_R_64F)
GWSIM_SOLVER(C, un, he, CUDA_C_32F)
GWSIM_SOLVER(Z, un, he, CUDA_C_64F)

// ---- the 64-bit calls, which name the type as an argument

GWSIM_EXPORT int cusolverDnXpotrf_bufferSize(Handle*, const Params*, int, int64_t n, int type, const void*,
                                             int64_t, int, size_t* device, size_t* host) {
  return work_bytes(n, n, type, device, host);
}
GWSIM_EXPORT int cusolverDnXpotrf(Handle* h, const Params*, int, int64_t n, int type, void*, int64_t, int,
                                  void*, size_t, void*, size_t, int* info) {
  return run(h, Decomposition::kCholesky, type, {n, n}, info);
}
GWSIM_EXPORT int cusolverDnXpotrs(Handle* h, const Params*, int, int64_t n, int64_t sides, int type,
                                  const void*, int64_t, int, void*, int64_t, int* info) {
  return solve(h, type, n, sides, info);
}
GWSIM_EXPORT int cusolverDnXsytrs_bufferSize(Handle*, int, int64_t n, int64_t, int type, const void*, int64_t,
                                             const int64_t*, int, void*, int64_t, size_t* device,
                                             size_t* host) {
  return work_bytes(n, n, type, device, host);
}
GWSIM_EXPORT int cusolverDnXsytrs(Handle* h, int, int64_t n, int64_t sides, int type, const void*, int64_t,
                                  const int64_t*, int, void*, int64_t, void*, size_t, void*, size_t,
                                  int* info) {
  return solve(h, type, n, sides, info);
}
GWSIM_EXPORT int cusolverDnXgeqrf_bufferSize(Handle*, const Params*, int64_t m, int64_t n, int type,
                                             const void*, int64_t, int, const void*, int, size_t* device,
                                             size_t* host) {
  return work_bytes(m, n, type, device, host);
}
GWSIM_EXPORT int cusolverDnXgeqrf(Handle* h, const Params*, int64_t m, int64_t n, int type, void*, int64_t,
                                  int, void*, int, void*, size_t, void*, size_t, int* info) {
  return run(h, Decomposition::kQr, type, {m, n}, info);
}
GWSIM_EXPORT int cusolverDnXsyevd_bufferSize(Handle*, const Params*, int, int, int64_t n, int type,
                                             const void*, int64_t, int, const void*, int, size_t* device,
                                             size_t* host) {
  return work_bytes(n, n, type, device, host);
}
GWSIM_EXPORT int cusolverDnXsyevd(Handle* h, const Params*, int vectors, int, int64_t n, int type, void*,
                                  int64_t, int, void*, int, void*, size_t, void*, size_t, int* info) {
  return run(h, Decomposition::kSymmetricEigen, type, {n, n}, info, vectors != 0);
}
GWSIM_EXPORT int cusolverDnXsyevBatched_bufferSize(Handle*, const Params*, int, int, int64_t n, int type,
                                                   const void*, int64_t, int, const void*, int,
                                                   size_t* device, size_t* host, int64_t) {
  return work_bytes(n, n, type, device, host);
}
GWSIM_EXPORT int cusolverDnXsyevBatched(Handle* h, const Params*, int vectors, int, int64_t n, int type,
                                        void*, int64_t, int, void*, int, void*, size_t, void*, size_t,
                                        int* info, int64_t batch) {
  return run_batched(h, "syevBatched", Decomposition::kSymmetricEigen, type, {n, n}, static_cast<int>(batch),
                     info, vectors != 0);
}
GWSIM_EXPORT int cusolverDnXgeev_bufferSize(Handle*, const Params*, int, int, int64_t n, int type,
                                            const void*, int64_t, int, const void*, int, const void*, int64_t,
                                            int, const void*, int64_t, int, size_t* device, size_t* host) {
  return work_bytes(n, n, type, device, host);
}
GWSIM_EXPORT int cusolverDnXgeev(Handle* h, const Params*, int left, int right, int64_t n, int type, void*,
                                 int64_t, int, void*, int, void*, int64_t, int, void*, int64_t, int, void*,
                                 size_t, void*, size_t, int* info) {
  return run(h, Decomposition::kEigen, type, {n, n}, info, left != 0 || right != 0);
}
