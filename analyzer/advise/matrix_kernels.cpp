// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/matrix_kernels.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace gpuwatch::advise {
namespace {

struct NamePart {
  std::string_view part;
  MatrixArithmetic arithmetic;
};
constexpr NamePart kNameParts[] = {
#define GW_MATRIX_KERNEL(part, arithmetic) {part, MatrixArithmetic::arithmetic},
#define GW_MATMUL_PRECISION(part, precision)
#include "analyzer/advise/matrix_kernels.def"
#undef GW_MATMUL_PRECISION
#undef GW_MATRIX_KERNEL
};

struct PrecisionPart {
  std::string_view part;
  MatmulPrecision precision;
};
constexpr PrecisionPart kPrecisionParts[] = {
#define GW_MATRIX_KERNEL(part, arithmetic)
#define GW_MATMUL_PRECISION(part, precision) {part, MatmulPrecision::precision},
#include "analyzer/advise/matrix_kernels.def"
#undef GW_MATMUL_PRECISION
#undef GW_MATRIX_KERNEL
};

struct PublishedRate {
  int major, minor;
  std::string_view name_part;
  TensorCores cores;
};
constexpr PublishedRate kPublishedRates[] = {
#define GW_TENSOR_CORES(major, minor, name_part, tf32, half, flops_per_byte, gflops) \
  {major, minor, name_part, {tf32, half, flops_per_byte, gflops}},
#include "analyzer/advise/tensor_cores.def"
#undef GW_TENSOR_CORES
};

}  // namespace

MatrixArithmetic matrix_arithmetic(std::string_view kernel_name) {
  for (const NamePart& row : kNameParts)
    if (kernel_name.find(row.part) != std::string_view::npos) return row.arithmetic;
  return MatrixArithmetic::kOther;
}

MatmulPrecision matmul_precision(std::string_view kernel_name) {
  for (const PrecisionPart& row : kPrecisionParts)
    if (kernel_name.find(row.part) != std::string_view::npos) return row.precision;
  return MatmulPrecision::kUnknown;
}

std::optional<TensorCores> tensor_cores(const model::Device& device) {
  if (!device.is_nvidia()) return std::nullopt;
  for (const PublishedRate& rate : kPublishedRates)
    if (rate.major == device.compute_major && rate.minor == device.compute_minor &&
        device.name.find(rate.name_part) != std::string::npos)
      return rate.cores;
  return std::nullopt;
}

// In all naming schemes the first pair of the form 128x64 is the tile.
std::optional<Tile> matmul_tile(std::string_view kernel_name) {
  if (kernel_name.find("winograd") != std::string_view::npos) return std::nullopt;
  const char* const end = kernel_name.data() + kernel_name.size();
  for (const char* at = kernel_name.data(); at < end; ++at) {
    Tile tile;
    const auto [times, error] = std::from_chars(at, end, tile.rows);
    if (error == std::errc::invalid_argument) continue;
    if (times < end && *times == 'x' && tile.rows > 0 &&
        std::from_chars(times + 1, end, tile.columns).ec == std::errc{} && tile.columns > 0)
      return tile;
    at = times - 1;
  }
  return std::nullopt;
}

TimeLeft time_left_in_tf32(const model::Kernel& kernel, double duration_ns, const model::Device& device,
                           const TensorCores& cores) {
  TimeLeft left{.at_best = 1 / cores.tf32};
  const auto tile = matmul_tile(kernel.name);
  if (!tile || !kernel.has_shape() || duration_ns <= 0) return left;
  const double waves = std::max(1.0, std::ceil(kernel.blocks() / std::max(1, device.multiprocessors)));
  const double operations = duration_ns / waves * cores.fp32_gflops;
  const double depth = operations / (2.0 * tile->rows * tile->columns);
  const double from_memory =
      2 * cores.fp32_flops_per_byte * (1.0 / tile->rows + 1.0 / tile->columns + 1 / depth);
  left.at_worst = std::clamp(from_memory, left.at_best, 1.0);
  return left;
}

}  // namespace gpuwatch::advise
