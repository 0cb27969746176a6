// SPDX-License-Identifier: Apache-2.0
// Which kernels are matmuls without tensor cores, by their names, and how much faster a device's tensor cores
// run them. Pure functions.
#pragma once

#include <optional>
#include <string_view>

#include "analyzer/model/run.h"

namespace gpuwatch::advise {

enum class MatrixArithmetic {
  kOther,        // no matmul, or a matmul of neither kind below
  kFp32,         // FP32 inputs and arithmetic, without tensor cores
  kTensorCores,  // of any precision
};

// By the vendor's naming schemes (matrix_kernels.def). Mangled names match, too.
MatrixArithmetic matrix_arithmetic(std::string_view kernel_name);

// Of a kernel that is known to be a matmul or convolution (model/kernel_class.h).
enum class MatmulPrecision { kUnknown, kFp64, kFp32, kTf32, kHalf, kFp8 };
MatmulPrecision matmul_precision(std::string_view kernel_name);

// Published peak rates as multiples of the device's FP32 rate without tensor cores.
struct TensorCores {
  double tf32 = 0;                 // 0: no TF32 (compute capability 7.x)
  double half = 0;                 // bfloat16 (8.0 and later) or float16
  double fp32_flops_per_byte = 0;  // FP32 rate over memory bandwidth
  double fp32_gflops = 0;          // of one SM
};

// nullopt: no tensor cores (compute capability before 7.0), or not in the table (tensor_cores.def).
std::optional<TensorCores> tensor_cores(const model::Device& device);

// The part of a matmul's result that one thread block computes.
struct Tile {
  int rows = 0, columns = 0;
};

// Taken from the kernel's name. nullopt: the name has none, or the algorithm does other arithmetic than a
// matmul's (Winograd).
std::optional<Tile> matmul_tile(std::string_view kernel_name);

// The share of an FP32 matmul's time that remains when tensor cores run it in TF32.
struct TimeLeft {
  double at_best = 0;   // the tensor cores reach their published rate
  double at_worst = 1;  // memory-bound: each block loads its inputs from memory and shares none in the cache
};

// The roofline of one block (S. Williams, A. Waterman, D. Patterson: Roofline, CACM 52(4), 2009): it does
// 2 rows columns depth operations on 4 (rows + columns) depth bytes of inputs and 4 rows columns bytes of
// result. The depth follows from the duration, because no block exceeds the published FP32 rate.
TimeLeft time_left_in_tf32(const model::Kernel& kernel, double duration_ns, const model::Device& device,
                           const TensorCores& cores);

}  // namespace gpuwatch::advise
