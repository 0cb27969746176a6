// SPDX-License-Identifier: Apache-2.0
// Which kernels multiply matrices without tensor cores, told from their names, and how much faster a device's
// tensor cores are at that. Pure functions.
#pragma once

#include <optional>
#include <string_view>

#include "analyzer/model/run.h"

namespace gpuwatch::advise {

enum class MatrixArithmetic {
  kOther,        // no matrix product, or one that neither of the others describes
  kFp32,         // FP32 operands and arithmetic, without tensor cores
  kTensorCores,  // of any precision
};

// By the tables of the vendor's naming schemes (matrix_kernels.def); mangled names will do.
MatrixArithmetic matrix_arithmetic(std::string_view kernel_name);

// Published rates as multiples of the device's rate in FP32 without tensor cores.
struct TensorCores {
  double tf32 = 0;                 // 0: no TF32 (compute capability 7.x)
  double half = 0;                 // bfloat16 (8.0 and later) or float16
  double fp32_flops_per_byte = 0;  // of the device's memory
  double fp32_gflops = 0;          // of one multiprocessor
};

// nullopt: no tensor cores (before 7.0), or their rate is not in the table (tensor_cores.def).
std::optional<TensorCores> tensor_cores(const model::Device& device);

// The part of a product's result that a thread block computes.
struct Tile {
  int rows = 0, columns = 0;
};

// As the kernel's name has it; nullopt where it does not, or is of an algorithm that does other arithmetic
// than the product's (Winograd).
std::optional<Tile> product_tile(std::string_view kernel_name);

// What is left of an FP32 product's time when tensor cores do it in TF32.
struct TimeLeft {
  double at_best = 0;   // they reach their published rate
  double at_worst = 1;  // each block fetches its operands from the memory and shares none with another
};

// The roofline of a block (S. Williams, A. Waterman, D. Patterson: Roofline, CACM 52(4), 2009): 2 rows
// columns depth operations on 4 (rows + columns) depth bytes of operands and 4 rows columns of the result.
// How deep the product is follows from its duration, which no block spends faster than at the published rate
// in FP32.
TimeLeft time_left_in_tf32(const model::Kernel& kernel, double duration_ns, const model::Device& device,
                           const TensorCores& cores);

}  // namespace gpuwatch::advise
