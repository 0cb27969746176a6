// SPDX-License-Identifier: Apache-2.0
// What the GPU's kernels could gain: by their names, on steps that are made of them. Bounds are computed by
// hand.
#include <gtest/gtest.h>

#include "analyzer/advise/diagnose.h"
#include "analyzer/advise/kernel_gains.h"
#include "analyzer/advise/matrix_kernels.h"
#include "analyzer/advise/rule.h"
#include "tests/unit/analyzer/synthetic_run.h"

namespace gpuwatch::advise {
namespace {

using test::Action;

constexpr size_t kSteps = 100;
constexpr const char* kGemm = "sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas";
constexpr const char* kSgemm = "ampere_sgemm_128x64_nn";
constexpr const char* kAdd =
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)";
constexpr const char* kSoftmax =
    "void (anonymous namespace)::softmax_warp_forward<float, float, float, 9>(float*)";
constexpr const char* kFlash = "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Traits<64> >(P)";
constexpr const char* kToNhwc = "void cudnn::ops::nchwToNhwcKernel<float, float, float>(P)";
constexpr const char* kForeach =
    "void at::native::multi_tensor_apply_kernel<L, BinaryOpListAlphaFunctor<float> >(P)";
constexpr const char* kFused =
    "void at::native::multi_tensor_apply_kernel<L, FusedAdamMathFunctor<float> >(P)";

struct NamedKernel {
  const char* name;
  double us;
  bool in_optimizer = false;
};

test::Job job_of(const std::vector<NamedKernel>& kernels) {
  std::vector<Action> step;
  for (const NamedKernel& kernel : kernels) step.push_back({.device_us = kernel.us});
  test::Job job = test::make_device_job(step, kSteps);
  for (size_t i = 0; i < job.run.kernels.size(); ++i)
    job.run.kernels[i].name = kernels[i % kernels.size()].name;
  model::Device& device = job.process().devices[0];
  device.name = "NVIDIA A100-SXM4-80GB";
  device.compute_major = 8;
  // The optimizer's step spans the launches of its kernels.
  model::Thread& thread = job.process().threads[0];
  std::vector<model::HostCall> calls;
  for (size_t i = 0; i < thread.calls.size(); ++i) {
    if (kernels[i % kernels.size()].in_optimizer) {
      model::HostCall optimizer = thread.calls[i];
      optimizer.op_class = trace::OpClass::OptimizerStep;
      optimizer.correlation_or_object = 0;
      calls.push_back(optimizer);
    }
    calls.push_back(thread.calls[i]);
  }
  // Operations point to the calls by index.
  std::vector<uint32_t> moved;
  for (uint32_t i = 0; i < calls.size(); ++i)
    if (calls[i].op_class != trace::OpClass::OptimizerStep) moved.push_back(i);
  for (model::DeviceOp& op : device.operations)
    if (op.launch_call < moved.size()) op.launch_call = moved[op.launch_call];
  thread.calls = std::move(calls);
  return job;
}

KernelGains gains_of(const std::vector<NamedKernel>& kernels) {
  test::Job job = job_of(kernels);
  return kernel_gains(
      {.run = job.run, .rank = job.rank(), .process = job.process(), .device = &job.process().devices[0]});
}

const KernelGain* find(const KernelGains& gains, const std::string& words) {
  for (const KernelGain& gain : gains.parts)
    if (gain.what.find(words) != std::string::npos) return &gain;
  return nullptr;
}

// The recorded step is as long as its kernels but for launches: within 5% of these figures.
constexpr double kNear = 0.05;

TEST(KernelGains, AChainLeavesItsShortestKernel) {
  const KernelGains gains = gains_of({{kGemm, 500}, {kAdd, 200}, {kAdd, 100}, {kAdd, 200}});
  const KernelGain* chain = find(gains, "in a row");
  ASSERT_NE(chain, nullptr);
  EXPECT_NEAR(chain->share, 0.4, kNear);
  ASSERT_TRUE(chain->bound);
  EXPECT_NEAR(*chain->bound, 1 / (1 - 0.4), 0.1);
  EXPECT_EQ(chain->change, "use torch.compile");
}

TEST(KernelGains, SinglePointwiseKernelsAreNoChain) {
  EXPECT_EQ(find(gains_of({{kGemm, 500}, {kAdd, 200}, {kGemm, 500}, {kAdd, 200}}), "in a row"), nullptr);
}

TEST(KernelGains, SoftmaxBetweenTwoMatmulsIsUnfusedAttention) {
  const KernelGains gains =
      gains_of({{kGemm, 300}, {kAdd, 100}, {kSoftmax, 100}, {kAdd, 100}, {kGemm, 300}, {kGemm, 300}});
  const KernelGain* attention = find(gains, "attention");
  ASSERT_NE(attention, nullptr);
  EXPECT_NEAR(attention->share, 0.25, kNear);
  EXPECT_FALSE(attention->bound);  // the matmuls get faster, too, by an unknown amount
  EXPECT_FALSE(gains.bound);
}

TEST(KernelGains, ALossesSoftmaxAndFusedAttentionAreNot) {
  EXPECT_EQ(
      find(gains_of({{kGemm, 300}, {kSoftmax, 100}, {"void at::native::nll_loss_forward<float>(P)", 100}}),
           "attention"),
      nullptr);
  EXPECT_EQ(find(gains_of({{kGemm, 300}, {kFlash, 300}, {kGemm, 300}}), "attention"), nullptr);
}

TEST(KernelGains, TensorCoresReachAtMostTheirPublishedRate) {
  const KernelGains gains = gains_of({{kSgemm, 800}, {kGemm, 200}});
  const KernelGain* fp32 = find(gains, "FP32");
  ASSERT_NE(fp32, nullptr);
  ASSERT_TRUE(fp32->bound);
  EXPECT_NEAR(*fp32->bound, 1 / (1 - 0.8 * (1 - 1 / 16.1)), 0.3);  // A100
  ASSERT_TRUE(gains.bound);
  EXPECT_NEAR(*gains.bound, *fp32->bound, 1e-6);
}

TEST(KernelGains, DoublePrecisionIsAComplaint) {
  test::Job job = job_of({{"volta_dgemm_128x64_nn", 800}, {kGemm, 200}});
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  const Finding* first = first_complaint(diagnosis.findings);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->id, "compute-bound");
  EXPECT_EQ(setting_value(first->fix.change), "float32");
  EXPECT_NEAR(first->ceiling_speedup.value_or(0), 1 / (0.2 + 0.8 / 64), 0.1);
  EXPECT_EQ(diagnosis.verdict.id, "compute-bound") << diagnosis.verdict.sentence;
  job.process().facts["anomaly_mode"] = "on";  // looks for NaN on the GPU, too
  EXPECT_EQ(first_complaint(diagnose(job.run, job.ranks).findings)->id, "debug-left-on");
}

TEST(KernelGains, RatesOfNvidiaAreNotThoseOfAmd) {
  test::Job job = job_of({{kSgemm, 800}, {kGemm, 200}});
  model::Device& device = job.process().devices[0];
  device.is_amd = true;
  device.compute_major = 9;
  const KernelGains gains =
      kernel_gains({.run = job.run, .rank = job.rank(), .process = job.process(), .device = &device});
  ASSERT_NE(find(gains, "FP32"), nullptr);
  EXPECT_FALSE(find(gains, "FP32")->bound);
}

TEST(KernelGains, LayoutTransposesCanDisappear) {
  const KernelGain* layout = nullptr;
  const KernelGains gains = gains_of({{kGemm, 800}, {kToNhwc, 200}});
  layout = find(gains, "layout");
  ASSERT_NE(layout, nullptr);
  EXPECT_NEAR(*layout->bound, 1.25, 0.05);
}

TEST(KernelGains, OptimizersAreToldByWhereTheyRunAndWhatTheyRun) {
  const KernelGains loop = gains_of({{kGemm, 800}, {kAdd, 100, true}, {kAdd, 100, true}});
  EXPECT_NE(find(loop, "loops over parameters"), nullptr);
  EXPECT_EQ(find(loop, "in a row"), nullptr);  // torch.compile of the model does not reach it
  EXPECT_NE(find(gains_of({{kGemm, 800}, {kForeach, 200, true}}), "multi-tensor"), nullptr);
  EXPECT_TRUE(gains_of({{kGemm, 800}, {kFused, 200, true}}).parts.empty());
}

TEST(KernelGains, ComputeBoundNamesThemLargestFirst) {
  test::Job job = job_of({{kGemm, 500}, {kAdd, 300}, {kAdd, 100}, {kToNhwc, 100}});
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  const Finding* finding = nullptr;
  for (const Finding& found : diagnosis.findings)
    if (found.id == "compute-bound") finding = &found;
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->severity, Severity::kInfo);
  EXPECT_EQ(finding->fix.summary.find("Use torch.compile (kernels in a row"), 0) << finding->fix.summary;
  EXPECT_NE(finding->fix.summary.find("; use memory_format=torch.channels_last (layout transposes"),
            std::string::npos)
      << finding->fix.summary;
  ASSERT_TRUE(finding->ceiling_speedup);
  EXPECT_NEAR(*finding->ceiling_speedup, 1 / (1 - 0.4), 0.1);
  const auto has = [&](const std::string& what) {
    return std::ranges::any_of(finding->evidence, [&](const Evidence& e) { return e.what == what; });
  };
  EXPECT_TRUE(has("matmuls"));
  EXPECT_TRUE(has("layout transposes"));
  EXPECT_TRUE(has("median launch queue"));
}

// Nothing that one change would remove: no figures, and no bound that a change would not reach.
TEST(KernelGains, ComputeBoundWithoutPartsHasNoBound) {
  test::Job job = job_of({{kGemm, 500}, {kFlash, 500}});
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  const auto found = std::ranges::find(diagnosis.findings, "compute-bound", &Finding::id);
  ASSERT_NE(found, diagnosis.findings.end());
  EXPECT_FALSE(found->ceiling_speedup);
}

TEST(MatrixKernels, NamePrecisions) {
  const std::pair<const char*, MatmulPrecision> kNames[] = {
      {"ampere_sgemm_128x64_nn", MatmulPrecision::kFp32},
      {"volta_sgemm_32x128_tn", MatmulPrecision::kFp32},
      {"Cijk_Ailk_Bljk_SB_MT64x128x16_SN_1LDSB0_", MatmulPrecision::kFp32},
      {"Cijk_Alik_Bljk_S_B_Bias_HA_S_SAV_UserArgs_MT16x16x256", MatmulPrecision::kFp32},
      {"cutlass_80_tensorop_d884gemm_64x64_16x3_nn_align1", MatmulPrecision::kFp64},
      {"Cijk_Ailk_Bljk_DB_MT64x64x8", MatmulPrecision::kFp64},
      {"cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align4", MatmulPrecision::kTf32},
      {"sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw", MatmulPrecision::kTf32},
      {"ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_tn", MatmulPrecision::kHalf},
      {"turing_fp16_s1688gemm_fp16_256x128_ldg8_f2f_tn", MatmulPrecision::kHalf},
      {"Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x208x64", MatmulPrecision::kHalf},
      {"igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32", MatmulPrecision::kHalf},
      {"bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2", MatmulPrecision::kFp8},
      {"nvjet_tst_64x64_64x16_2x1_2cta_v_bz_bias_TNT", MatmulPrecision::kUnknown}};
  for (const auto& [name, precision] : kNames) EXPECT_EQ(matmul_precision(name), precision) << name;
}

}  // namespace
}  // namespace gpuwatch::advise
