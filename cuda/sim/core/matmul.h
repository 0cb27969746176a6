// SPDX-License-Identifier: Apache-2.0
// Matrix products as the linear algebra libraries' stand-ins launch them: one kernel, whose duration follows
// from the shape. Nothing is computed.
//
// The kernel works in square tiles, as many at once as the device has multiprocessors, and takes the
// longer of two times: that of the arithmetic in all its waves, at the configured rate for the precision,
// and that of moving each operand once at d2d_gbs. So a batch that fills no wave takes as long as one that
// does. Split-k, stream-k and caches are not modelled. A "kernel" line of the configuration that matches
// the name overrules. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "library_kernel.h"

namespace gpuwatch::sim {

// kC32, kC64: complex numbers of two floats, of two doubles.
enum class MatmulPrecision : uint8_t { kF64, kF32, kTf32, kF16, kBf16, kF8, kInt8, kC32, kC64 };

uint32_t operand_bytes(MatmulPrecision precision);
// So many multiplications, each with an addition, at the share of the type's throughput that full waves
// reach.
double multiplications_ns(MatmulPrecision precision, double count);

// C (m x n) = A (m x k) B (k x n), `batch` times.
struct Matmul {
  uint64_t m = 0, n = 0, k = 0, batch = 1;
  MatmulPrecision precision = MatmulPrecision::kF32;
  bool transposed_a = false;
  bool transposed_b = false;
  uint32_t result_bytes = 4;  // of one element of C
};

// In the scheme of the kernels in NVIDIA's public CUTLASS: "cutlass_80_simt_sgemm_128x128_8x4_nn_align1".
std::string matmul_kernel_name(const Matmul& matmul);
Ns matmul_duration_ns(const Matmul& matmul);
// Its parts, for products that move other memory than their operands: the edge of the tiles in elements, the
// time of the arithmetic alone, and blocks and threads.
uint64_t matmul_tile_edge(const Matmul& matmul);
double matmul_arithmetic_ns(const Matmul& matmul);
LaunchShape matmul_shape(const Matmul& matmul);

// Not for an empty product.
LibraryKernel matmul_kernel(const Matmul& matmul);

}  // namespace gpuwatch::sim
