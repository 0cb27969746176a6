// SPDX-License-Identifier: Apache-2.0
// Names as they stand in traces of real GPUs (A100, V100, H100, B200, MI210, MI300X), or as the libraries
// make them.
#include <gtest/gtest.h>

#include <string>

#include "analyzer/model/kernel_class.h"
#include "analyzer/model/tables.h"

namespace gpuwatch::model {
namespace {

TEST(KernelClass, TheFunctionIsFoundInADemangledName) {
  EXPECT_EQ(function_name("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float> >(int)"),
            "at::native::reduce_kernel");
  EXPECT_EQ(function_name("void at::native::(anonymous namespace)::CatArrayBatchedCopy<(anonymous "
                          "namespace)::Opaque<2u>, 1>(Opaque*)"),
            "CatArrayBatchedCopy");
  EXPECT_EQ(function_name("std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, "
                          "void>::type vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*)"),
            "vllm::fused_add_rms_norm_kernel");
  EXPECT_EQ(function_name("ampere_sgemm_32x32_sliced1x4_tn"), "ampere_sgemm_32x32_sliced1x4_tn");
  EXPECT_EQ(function_name("_ZN2ck16tensor_operation6deviceE"), "_ZN2ck16tensor_operation6deviceE");
  for (const char* odd : {"", "(", "<", " ", ">)<(", "void ", "(anonymous namespace)::"})
    EXPECT_LE(function_name(odd).size(), std::string(odd).size()) << odd;
}

TEST(KernelClass, NamesTellWhatAKernelDoes) {
  const std::pair<const char*, KernelClass> kNames[] = {
      {"ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", KernelClass::kCommunication},
      {"ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", KernelClass::kCommunication},
      {"void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)",
       KernelClass::kCommunication},
      {"_Z31ncclDevKernel_AllReduce_Sum_f32v", KernelClass::kCommunication},
      {"ampere_sgemm_32x32_sliced1x4_tn", KernelClass::kMatmul},
      {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas", KernelClass::kMatmul},
      {"nvjet_tst_64x64_64x16_2x1_2cta_v_bz_bias_TNT", KernelClass::kMatmul},
      {"void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align4>(P)", KernelClass::kMatmul},
      {"Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x208x64_MI16x16x1", KernelClass::kMatmul},
      {"bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3", KernelClass::kMatmul},
      {"void gemv2T_kernel_val<int, float>(P)", KernelClass::kMatmul},
      {"void splitKreduce_kernel<32, 16, int, float>(P)", KernelClass::kMatmul},
      {"triton_tem_fused_mm_3", KernelClass::kMatmul},
      {"cudnn_ampere_scudnn_128x64_relu_xregs_large_nn_v1", KernelClass::kConvolution},
      {"sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw", KernelClass::kConvolution},
      {"void wgrad_alg0_engine<float, 128, 6, 7, 3, 3, 5, false, 512>(int)", KernelClass::kConvolution},
      {"igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32", KernelClass::kConvolution},
      {"miopenSp3AsmConv_v30_3_1_gfx9_fp32_f2x3_stride1", KernelClass::kConvolution},
      {"_ZN2ck16tensor_operation6device37kernel_batched_gemm_xdlops_bwd_weightINS_4Gr",
       KernelClass::kConvolution},
      {"void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64> >(P)",
       KernelClass::kAttention},
      {"fmha_cutlassF_bf16_aligned_64x64_rf_sm80(P)", KernelClass::kAttention},
      {"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob", KernelClass::kAttention},
      {"void (anonymous namespace)::softmax_warp_forward<float, float, float, 9, false, false>(float*)",
       KernelClass::kSoftmax},
      {"void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float>(float*)",
       KernelClass::kSoftmax},
      {"void at::native::batch_norm_collect_statistics_kernel<at::native::Var, float>(P)",
       KernelClass::kNormalization},
      {"void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 128, true, 1>(float)",
       KernelClass::kNormalization},
      {"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)",
       KernelClass::kElementwise},
      {"void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::"
       "direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}>(int)>(int)",
       KernelClass::kTensorCopy},
      {"void at::native::index_elementwise_kernel<128, 4>(long)", KernelClass::kEmbedding},
      {"void at::native::(anonymous namespace)::indexSelectLargeIndex<float>(P)", KernelClass::kEmbedding},
      {"void split_embedding_backward_codegen_rowwise_adagrad_unweighted_kernel_cta_per_row_1<float>(P)",
       KernelClass::kEmbedding},
      {"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<A, B>(A, B)",
       KernelClass::kOptimizer},
      {"void cudnn::ops::nchwToNhwcKernel<float, float, float>(P)", KernelClass::kLayout},
      {"batched_transpose_16x64_pack_1x4_ediv_1x2_half", KernelClass::kLayout},
      {"triton_poi_fused_add_mul_2", KernelClass::kCompiled},
      {"triton_per_fused_native_layer_norm_0", KernelClass::kCompiled},
      {"void at::native::reduce_kernel<128, 4, at::native::ReduceOp<float> >(P)", KernelClass::kReduction},
      {"void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float>(P)",
       KernelClass::kReduction},
      {"void cub::DeviceRadixSortOnesweepKernel<P>(P)", KernelClass::kSorting},
      {"void at::native::(anonymous namespace)::max_pool_forward_nchw<float>(P)", KernelClass::kPooling},
      {"void at::native::convert_to_float8_kernel<float>(P)", KernelClass::kOther},
      {"saxpy", KernelClass::kOther},
      {"", KernelClass::kOther},
  };
  for (const auto& [name, expected] : kNames)
    EXPECT_EQ(info(kernel_class(name)).name, info(expected).name) << name;
}

TEST(KernelClass, ShortNamesSayWhatIsComputed) {
  EXPECT_EQ(short_kernel_name(
                "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
                "at::detail::Array<char*, 3> >(int, at::native::CUDAFunctor_add<float>)"),
            "vectorized_elementwise_kernel CUDAFunctor_add");
  EXPECT_EQ(
      short_kernel_name(
          "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl<at::native::"
          "BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> > > >(int)"),
      "elementwise_kernel MulFunctor");
  EXPECT_EQ(short_kernel_name("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align4>(P)"),
            "Kernel2 cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align4");
  EXPECT_EQ(short_kernel_name("volta_sgemm_64x64_tn"), "volta_sgemm_64x64_tn");
  EXPECT_EQ(short_kernel_name(""), "");
}

TEST(KernelClass, CollectivesOfAllLibrariesAreCommunication) {
  EXPECT_TRUE(is_communication("ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)"));
  EXPECT_TRUE(is_communication("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(P)"));
  EXPECT_FALSE(is_communication("void at::native::reduce_kernel<128, 4>(P)"));
  EXPECT_FALSE(is_communication("triton_red_fused_all_reduce_wait_tensor_1"));
}

}  // namespace
}  // namespace gpuwatch::model
