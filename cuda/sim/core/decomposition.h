// SPDX-License-Identifier: Apache-2.0
// Dense decompositions (LU, Cholesky, QR, eigenvalues, SVD) and solves with them as the linear algebra
// libraries' stand-ins launch them: blocked, as LAPACK's algorithms are. A panel of columns is one kernel,
// what it changes of the rest of the matrix is one or two matmuls. So the time follows from LAPACK's
// operation counts, and from memory where a reduction reads the rest of the matrix for every column. Batched
// routines are one kernel. What a panel waits for between its columns is not modelled. Nothing is computed.
#pragma once

#include <vector>

#include "library_kernel.h"
#include "matmul.h"

namespace gpuwatch::sim {

enum class Decomposition : uint8_t {
  kLu,
  kCholesky,
  kSymmetricIndefinite,
  kQr,
  kFormQ,       // of a QR
  kApplyQ,      // to another matrix
  kTriangular,  // solves with one triangular matrix
  kSymmetricEigen,
  kEigen,
  kSvd,
};

// Of a matrix of m rows and n columns. A triangular solve: n x n, `other` right-hand sides. Q: `other`
// reflectors.
struct DenseTask {
  Decomposition what = Decomposition::kLu;
  MatmulPrecision precision = MatmulPrecision::kF32;
  uint64_t m = 0, n = 0;
  uint64_t other = 0;
  bool vectors = false;  // of eigenvalues and singular values
};

std::vector<LibraryKernel> decomposition_kernels(const DenseTask& task);

// `batch` such tasks in one kernel of this name. Everything is read and written once.
LibraryKernel batched_kernel(const char* name, const DenseTask& task, uint64_t batch);

// Of memory that such a routine asks for: one panel.
uint64_t decomposition_work_elements(uint64_t m, uint64_t n);

}  // namespace gpuwatch::sim
