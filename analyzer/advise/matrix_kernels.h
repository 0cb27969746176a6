// SPDX-License-Identifier: Apache-2.0
// Which kernels multiply matrices without tensor cores, told from their names, and how much faster a device's
// tensor cores are. Pure functions.
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
  double tf32 = 0;  // 0: no TF32 (compute capability 7.x)
  double half = 0;  // bfloat16 (8.0 and later) or float16
};

// nullopt: no tensor cores (before 7.0), or their rate is not in the table (tensor_cores.def).
std::optional<TensorCores> tensor_cores(const model::Device& device);

}  // namespace gpuwatch::advise
