// SPDX-License-Identifier: Apache-2.0
// FP32 matmuls without tensor cores: recognized by kernel names, on devices that have tensor cores.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "analyzer/advise/diagnose.h"
#include "analyzer/advise/matrix_kernels.h"
#include "tests/unit/analyzer/synthetic_run.h"

namespace gpuwatch::advise {
namespace {

using test::Action;

constexpr size_t kSteps = 100;
constexpr const char* kSgemm = "ampere_sgemm_128x64_nn";
const std::vector<Action> kBusyStep = {{.device_us = 800}, {.device_us = 200}};

struct Wanted {
  std::string matmul = kSgemm;  // name of each step's first kernel
  int major = 8, minor = 0;
  std::string device = "NVIDIA A100-SXM4-80GB";
  std::vector<Action> step = kBusyStep;
};

Diagnosis diagnose_matmuls(const Wanted& wanted, bool is_torch = true) {
  test::Job job = test::make_device_job(wanted.step, kSteps);
  model::Device& device = job.process().devices[0];
  device.compute_major = wanted.major;
  device.compute_minor = wanted.minor;
  device.name = wanted.device;
  const auto kernels = std::ranges::count(wanted.step, trace::RecordKind::Kernel, &Action::kind);
  for (size_t i = 0; i < job.run.kernels.size(); i += size_t(kernels))
    job.run.kernels[i].name = wanted.matmul;
  if (!is_torch) job.process().facts.clear();
  return diagnose(job.run, job.ranks);
}

const Finding* find(const Diagnosis& diagnosis) {
  for (const Finding& finding : diagnosis.findings)
    if (finding.id == "mixed-precision") return &finding;
  return nullptr;
}

TEST(MatrixKernels, AreToldByTheVendorsNames) {
  for (const char* name :
       {"ampere_sgemm_128x64_nn", "volta_sgemm_32x128_tn", "cutlass_80_simt_sgemm_128x64_8x5_nn_align1",
        "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize256x64x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_"
        "execute_kernel__5x_cublas",
        "cudnn_infer_ampere_scudnn_128x64_relu_xregs_large_nn_v1"})
    EXPECT_EQ(matrix_arithmetic(name), MatrixArithmetic::kFp32) << name;
  for (const char* name :
       {"cutlass_80_tensorop_s1688gemm_tf32_128x128_16x4_nn_align4",
        "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_tn",
        "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_warpgroupsize1x1x1_execute_segment_k_off_"
        "kernel__5x_cublas",
        "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", "turing_fp16_s1688gemm_fp16_256x128_ldg8_f2f_tn",
        "volta_h884gemm_256x64_ldg8_nn", "nvjet_sm100_tst_128x256_64x6_2x1_2cta_v_bz_TNT"})
    EXPECT_EQ(matrix_arithmetic(name), MatrixArithmetic::kTensorCores) << name;
  // Half precision whose sizes keep the tensor cores out, double precision, no matmul at all.
  for (const char* name :
       {"ampere_fp16_sgemm_fp16_128x128_nt", "cutlass_80_tensorop_d884gemm_64x64_16x3_nn_align1",
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>", ""})
    EXPECT_EQ(matrix_arithmetic(name), MatrixArithmetic::kOther) << name;
}

TEST(MatrixKernels, NameTheirTiles) {
  const auto tile = [](std::string_view name) {
    const auto found = matmul_tile(name).value_or(Tile{});
    return std::pair(found.rows, found.columns);
  };
  EXPECT_EQ(tile("ampere_sgemm_128x64_nn"), std::pair(128, 64));
  EXPECT_EQ(tile("_ZN7cutlass6KernelI47cutlass_80_simt_sgemm_256x128_8x4_tn_align1EEvNT_6ParamsE"),
            std::pair(256, 128));
  EXPECT_EQ(tile("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x128x8_stage3_warpsize1x2x1_ffma"),
            std::pair(32, 128));
  for (const char* name : {"maxwell_scudnn_winograd_128x128_ldg1_ldg4_tile148n_nt", "sgemm_largek_lds64",
                           "sgemm_64x", "sgemm_0x64", "", "99999999999999999999x4"})
    EXPECT_EQ(tile(name), std::pair(0, 0)) << name;
}

// Computed by hand, for a device of 10 SMs with 1000 FP32 operations a nanosecond each, 10 a byte.
TEST(MatrixKernels, LeaveInTf32WhatRateAndMemoryDo) {
  model::Device device;
  device.multiprocessors = 10;
  const TensorCores cores{.tf32 = 8, .half = 16, .fp32_flops_per_byte = 10, .fp32_gflops = 1000};
  const auto left = [&](const char* name, uint32_t blocks, double us) {
    const model::Kernel kernel{.name = name, .grid = {blocks, 1, 1}, .block = {256, 1, 1}};
    return time_left_in_tf32(kernel, 1e3 * us, device, cores);
  };
  // 2 * 100 * 100 * depth = 1000 * 20000 ns: depth 1000.
  EXPECT_DOUBLE_EQ(left("sgemm_100x100", 10, 20).at_worst, 20 * (0.01 + 0.01 + 0.001));
  EXPECT_DOUBLE_EQ(left("sgemm_100x100", 10, 20).at_best, 1.0 / 8);
  // An eleventh block is a second wave, each of half the time: half as deep.
  EXPECT_DOUBLE_EQ(left("sgemm_100x100", 11, 20).at_worst, 20 * (0.01 + 0.01 + 0.002));
  // Flat matmuls are memory-bound in FP32 already; kernels without a tile in their name may be.
  EXPECT_DOUBLE_EQ(left("sgemm_100x100", 10, 0.1).at_worst, 1);
  EXPECT_DOUBLE_EQ(left("sgemm_largek_lds64", 10, 20).at_worst, 1);
  // How many waves a kernel of unknown shape takes is not known.
  EXPECT_DOUBLE_EQ(left("sgemm_100x100", 0, 20).at_worst, 1);
  // Nothing is faster than the published rate.
  EXPECT_DOUBLE_EQ(left("sgemm_1000x1000", 10, 1e6).at_worst, 1.0 / 8);
}

TEST(MixedPrecision, IsBoundByThePublishedRateWhereMemoryLeavesMuchOpen) {
  const Diagnosis diagnosis = diagnose_matmuls({});
  const Finding* finding = find(diagnosis);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(diagnosis.findings.front().id, "mixed-precision");
  EXPECT_EQ(setting_name(finding->fix.change), "torch.set_float32_matmul_precision");
  // 200 us stay; matmuls of 800 us get 8x faster or, in eight waves of blocks, take 490 us:
  // 2 * 12.6 * (1 / 128 + 1 / 64 + 1 / 1123) of it.
  EXPECT_FALSE(finding->prediction);
  ASSERT_TRUE(finding->ceiling_speedup && finding->too_wide);
  const predict::Estimate& speedup = finding->too_wide->speedup;
  constexpr double kRunToRun = 0.03;
  EXPECT_NEAR(speedup.high, 1000 / 300.0 / (1 - kRunToRun), 0.05);
  EXPECT_NEAR(speedup.low, 1000 / 690.0 / (1 + kRunToRun), 0.02);
  EXPECT_NEAR(speedup.expected, std::sqrt(1000 / 300.0 * 1000 / 690.0), 0.05);
  EXPECT_DOUBLE_EQ(*finding->ceiling_speedup, speedup.high);
}

// Tiles so large that memory is no limit: only the published rate is left.
TEST(MixedPrecision, IsPredictedWhereMemoryIsNoLimit) {
  const Diagnosis diagnosis = diagnose_matmuls(
      {.matmul = "ampere_sgemm_1024x1024_nn", .step = {{.device_us = 80'000}, {.device_us = 20'000}}});
  const Finding* finding = find(diagnosis);
  ASSERT_NE(finding, nullptr);
  EXPECT_FALSE(finding->ceiling_speedup);
  ASSERT_TRUE(finding->prediction);
  EXPECT_NEAR(finding->prediction->speedup.expected, 1000 / 300.0, 0.1);
}

TEST(MixedPrecision, HalfPrecisionHasACeiling) {
  const Diagnosis diagnosis = diagnose_matmuls({.major = 7, .minor = 0, .device = "Tesla V100-SXM2-16GB"});
  const Finding* finding = find(diagnosis);
  ASSERT_NE(finding, nullptr);
  EXPECT_FALSE(finding->prediction);
  // 8 times faster, and of 200 us with half of the bytes 100 stay: never less than that may be promised away,
  // nor much more.
  ASSERT_TRUE(finding->ceiling_speedup);
  EXPECT_GE(*finding->ceiling_speedup, 1000 / 200.0 * 0.99);
  EXPECT_LE(*finding->ceiling_speedup, 1000 / 200.0 * 1.05);
}

TEST(MixedPrecision, NamesWhatTheDeviceHas) {
  EXPECT_EQ(find(diagnose_matmuls({.major = 6})), nullptr);
  const Diagnosis t4 = diagnose_matmuls({.major = 7, .minor = 5, .device = "Tesla T4"});
  ASSERT_NE(find(t4), nullptr);
  EXPECT_EQ(setting_value(find(t4)->fix.change), "float16");
  EXPECT_NE(find(t4)->fix.summary.find("GradScaler"), std::string::npos);
  // TF32 is no faster than FP32 there.
  const Diagnosis geforce = diagnose_matmuls({.major = 8, .minor = 9, .device = "NVIDIA GeForce RTX 4090"});
  ASSERT_NE(find(geforce), nullptr);
  EXPECT_EQ(setting_value(find(geforce)->fix.change), "bfloat16");
  EXPECT_LT(*find(geforce)->ceiling_speedup, 1000 / 500.0 * 1.05);
}

// 0.97 to 1.24 times in TF32, by small tiles: that is not worth naming, and a bound of half precision is.
TEST(MixedPrecision, HalfPrecisionIsNamedWhereTf32MayGainNothing) {
  const auto with_others_of = [](double us) {
    return diagnose_matmuls(
        {.minor = 6,
         .device = "NVIDIA A10",
         .step = {
             {.device_us = 320},
             {.device_us = us},
             {.op_class = trace::OpClass::Copy, .device_us = 680 - us, .kind = trace::RecordKind::CopyD2D}}});
  };
  EXPECT_EQ(find(with_others_of(600)), nullptr) << "most would be gained elsewhere";
  const Diagnosis a10 = with_others_of(300);
  ASSERT_NE(find(a10), nullptr);
  EXPECT_EQ(setting_value(find(a10)->fix.change), "bfloat16");
  EXPECT_FALSE(find(a10)->prediction);
  const auto& evidence = find(a10)->evidence;
  EXPECT_TRUE(std::ranges::none_of(evidence, [](const Evidence& e) { return e.what.ends_with("in TF32"); }));
}

TEST(MixedPrecision, ADeviceWithoutAPublishedRateHasTheMatmulTimeAsItsCeiling) {
  const Diagnosis diagnosis = diagnose_matmuls({.major = 42, .device = "Of a later day"});
  ASSERT_NE(find(diagnosis), nullptr);
  EXPECT_GE(*find(diagnosis)->ceiling_speedup, 1000 / 200.0 * 0.99);
}

TEST(MixedPrecision, IsSilentAboutTensorCoresAndSmallShares) {
  EXPECT_EQ(find(diagnose_matmuls({.matmul = "cutlass_80_tensorop_s1688gemm_tf32_128x128_16x4_nn_align4"})),
            nullptr);
  EXPECT_EQ(find(diagnose_matmuls({.matmul = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_tn"})), nullptr);
  EXPECT_EQ(find(diagnose_matmuls({.step = {{.device_us = 40}, {.device_us = 960}}})), nullptr);
}

TEST(MixedPrecision, IsSilentWhereTheHostLimits) {
  // The device is busy for six tenths of each step, and would only be idle for longer.
  EXPECT_EQ(find(diagnose_matmuls({.step = {{.gap_us = 900, .device_us = 500}, {.device_us = 50}}})),
            nullptr);
}

TEST(MixedPrecision, SpeaksOfCublasOutsidePyTorch) {
  const Diagnosis diagnosis = diagnose_matmuls({}, false);
  ASSERT_NE(find(diagnosis), nullptr);
  EXPECT_EQ(setting_name(find(diagnosis)->fix.change), "cublasSetMathMode");
}

}  // namespace
}  // namespace gpuwatch::advise
