// SPDX-License-Identifier: Apache-2.0
// How long kernels take that no rule names: by the shape of a product, by what their threads move. The
// numbers follow from duration.conf by hand.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "core/kernel.h"
#include "core/matmul.h"

using namespace gpuwatch::sim;

namespace {

Matmul product(uint64_t m, uint64_t n, uint64_t k, MatmulPrecision precision = MatmulPrecision::kF32) {
  Matmul mm;
  mm.m = m, mm.n = n, mm.k = k, mm.precision = precision;
  return mm;
}

// 64 x 64 tiles, one of them 2 * 64 * 64 * 1000 flop, at 50 flop per ns and multiprocessor; 3 us before.
constexpr Ns kOneWaveNs = 3'000 + 163'840;

}  // namespace

TEST(MatmulDuration, IsThatOfItsWaves) {
  EXPECT_EQ(matmul_duration_ns(product(64, 64, 1000)), kOneWaveNs);
  EXPECT_EQ(matmul_duration_ns(product(128, 320, 1000)), kOneWaveNs);  // ten tiles fill the device
  EXPECT_EQ(matmul_duration_ns(product(128, 384, 1000)), kOneWaveNs + 163'840);
}

TEST(MatmulDuration, FallsWithPrecision) {
  EXPECT_EQ(matmul_duration_ns(product(64, 64, 1000, MatmulPrecision::kF16)), 3'000 + 40'960);
}

TEST(MatmulDuration, IsThatOfTheMemoryWhereThatTakesLonger) {
  // 4 * (100000 + 64 + 6400000) bytes at 100 a ns.
  EXPECT_EQ(matmul_duration_ns(product(100'000, 64, 1)), 3'000 + 260'002);
}

TEST(MatmulDuration, GrowsWithTheBatch) {
  Matmul batched = product(64, 64, 1000);
  batched.batch = 11;
  // The large tile from here on: eleven of them, in two waves of four times the work.
  EXPECT_EQ(matmul_duration_ns(batched), 3'000 + 2 * 4 * 163'840);
}

TEST(MatmulKernel, IsNamedByTypeTileAndLayout) {
  Matmul mm = product(64, 64, 1000, MatmulPrecision::kBf16);
  mm.transposed_a = true;
  EXPECT_EQ(matmul_kernel_name(mm), "cutlass_80_tensorop_bf16_s16816gemm_bf16_64x64_32x4_tn_align8");
  EXPECT_TRUE(Kernel::find_or_add(matmul_kernel_name(mm).c_str())->has_rule());
  EXPECT_FALSE(Kernel::find_or_add(matmul_kernel_name(product(64, 64, 1000)).c_str())->has_rule());
}

TEST(KernelDuration, IsThatOfWhatItsThreadsMove) {
  EXPECT_EQ(Kernel::find_or_add("moves_much")->duration_ns(10, 32), 2'000 + 10 * 32 * 100 / 100);
  EXPECT_EQ(Kernel::find_or_add("moves_5us")->duration_ns(10, 32), 5'000);  // the name says
  EXPECT_EQ(Kernel::find_or_add("other")->duration_ns(10, 32), 10'000);
}

TEST(Device, ReadsAsZero) {
  int number = 7;
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, sizeof number), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(memory, &number, sizeof number, cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(&number, memory, sizeof number, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(number, 0);
  cudaFree(memory);
}

TEST(Device, HasTheLimitsOfItsComputeCapability) {
  cudaDeviceProp properties{};
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  EXPECT_EQ(properties.major * 10 + properties.minor, 86);
  EXPECT_EQ(properties.maxThreadsPerMultiProcessor, 1536);
  int bytes = 0;
  ASSERT_EQ(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerMultiprocessor, 0), cudaSuccess);
  EXPECT_EQ(static_cast<size_t>(bytes), properties.sharedMemPerMultiprocessor);
}
