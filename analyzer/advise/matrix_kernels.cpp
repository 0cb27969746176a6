// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/matrix_kernels.h"

namespace gpuwatch::advise {
namespace {

struct NamePart {
  std::string_view part;
  MatrixArithmetic arithmetic;
};
constexpr NamePart kNameParts[] = {
#define GW_MATRIX_KERNEL(part, arithmetic) {part, MatrixArithmetic::arithmetic},
#include "analyzer/advise/matrix_kernels.def"
#undef GW_MATRIX_KERNEL
};

struct PublishedRate {
  int major, minor;
  std::string_view name_part;
  TensorCores cores;
};
constexpr PublishedRate kPublishedRates[] = {
#define GW_TENSOR_CORES(major, minor, name_part, tf32, half) {major, minor, name_part, {tf32, half}},
#include "analyzer/advise/tensor_cores.def"
#undef GW_TENSOR_CORES
};

}  // namespace

MatrixArithmetic matrix_arithmetic(std::string_view kernel_name) {
  for (const NamePart& row : kNameParts)
    if (kernel_name.find(row.part) != std::string_view::npos) return row.arithmetic;
  return MatrixArithmetic::kOther;
}

std::optional<TensorCores> tensor_cores(const model::Device& device) {
  for (const PublishedRate& rate : kPublishedRates)
    if (rate.major == device.compute_major && rate.minor == device.compute_minor &&
        device.name.find(rate.name_part) != std::string::npos)
      return rate.cores;
  return std::nullopt;
}

}  // namespace gpuwatch::advise
