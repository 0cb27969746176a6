// SPDX-License-Identifier: Apache-2.0
#include "matmul.h"

#include <algorithm>

#include "config.h"

namespace gpuwatch::sim {

namespace {

struct PrecisionTraits {
  const char* instruction;  // of the name
  const char* depth;        // of a tile in k, and its stages
  int alignment;
  uint32_t operand_bytes;
  double flops;  // of a multiplication with its addition: complex ones take four of each
  double Config::*flops_per_ns;
};

// CUTLASS names the instruction by accumulator, shape, and operand type where that is not implied.
const PrecisionTraits& traits_of(MatmulPrecision precision) {
  static const PrecisionTraits kTraits[] = {
      {"tensorop_d884gemm", "16x3", 1, 8, 2, &Config::fp64_flops_per_ns},
      {"simt_sgemm", "8x4", 1, 4, 2, &Config::fp32_flops_per_ns},
      {"tensorop_s1688gemm_tf32", "16x4", 4, 4, 2, &Config::tf32_flops_per_ns},
      {"tensorop_f16_s16816gemm_f16", "32x4", 8, 2, 2, &Config::fp16_flops_per_ns},
      {"tensorop_bf16_s16816gemm_bf16", "32x4", 8, 2, 2, &Config::fp16_flops_per_ns},
      {"tensorop_s16832gemm_e4m3", "64x3", 16, 1, 2, &Config::fp8_flops_per_ns},
      {"tensorop_i16832gemm_s8", "64x3", 16, 1, 2, &Config::fp8_flops_per_ns},
      {"simt_cgemm", "8x4", 1, 8, 8, &Config::fp32_flops_per_ns},
      {"tensorop_z884gemm", "8x3", 1, 16, 8, &Config::fp64_flops_per_ns},
  };
  return kTraits[static_cast<size_t>(precision)];
}

uint64_t parts(uint64_t whole, uint64_t part) {
  return (whole + part - 1) / part;
}

uint64_t tiles(const Matmul& mm, uint64_t edge) {
  return parts(mm.m, edge) * parts(mm.n, edge) * mm.batch;
}

}  // namespace

uint32_t operand_bytes(MatmulPrecision precision) {
  return traits_of(precision).operand_bytes;
}

double multiplications_ns(MatmulPrecision precision, double count) {
  const PrecisionTraits& t = traits_of(precision);
  return count * t.flops / (config().*t.flops_per_ns * config().matmul_efficiency);
}

// The large tile where it fills the device, as the libraries' heuristics do.
uint64_t matmul_tile_edge(const Matmul& mm) {
  return tiles(mm, 128) >= static_cast<uint64_t>(config().multiprocessors) ? 128 : 64;
}

std::string matmul_kernel_name(const Matmul& mm) {
  const PrecisionTraits& t = traits_of(mm.precision);
  const std::string edge = std::to_string(matmul_tile_edge(mm));
  return std::string("cutlass_80_") + t.instruction + "_" + edge + "x" + edge + "_" + t.depth + "_" +
         (mm.transposed_a ? "t" : "n") + (mm.transposed_b ? "t" : "n") + "_align" +
         std::to_string(t.alignment);
}

double matmul_arithmetic_ns(const Matmul& mm) {
  const Config& c = config();
  const PrecisionTraits& t = traits_of(mm.precision);
  const uint64_t edge = matmul_tile_edge(mm);
  const auto multiprocessors = static_cast<uint64_t>(c.multiprocessors);
  const double tile_flops = t.flops * static_cast<double>(edge * edge) * static_cast<double>(mm.k);
  const double flops_per_ns = c.*t.flops_per_ns * c.matmul_efficiency / c.multiprocessors;
  const auto waves = static_cast<double>(parts(tiles(mm, edge), multiprocessors));
  return waves * tile_flops / flops_per_ns;
}

Ns matmul_duration_ns(const Matmul& mm) {
  const Config& c = config();
  const uint64_t operands = (mm.m * mm.k + mm.k * mm.n) * traits_of(mm.precision).operand_bytes;
  const auto bytes = static_cast<double>((operands + mm.m * mm.n * mm.result_bytes) * mm.batch);
  return c.matmul_floor_ns + static_cast<Ns>(std::max(matmul_arithmetic_ns(mm), bytes / c.d2d_bytes_per_ns));
}

LaunchShape matmul_shape(const Matmul& mm) {
  const uint64_t edge = matmul_tile_edge(mm);
  return {{static_cast<uint32_t>(parts(mm.m, edge)), static_cast<uint32_t>(parts(mm.n, edge)),
           static_cast<uint32_t>(mm.batch)},
          {edge == 128 ? 256u : 128u, 1, 1},
          0};
}

LibraryKernel matmul_kernel(const Matmul& mm) {
  return {matmul_kernel_name(mm), matmul_shape(mm), matmul_duration_ns(mm)};
}

}  // namespace gpuwatch::sim
