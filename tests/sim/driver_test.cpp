// SPDX-License-Identifier: Apache-2.0
// The driver stand-in, reached as launchers reach it: by name, through cuGetProcAddress.
#include <cuda.h>

#include "device_program.h"
#include "truth_file.h"

namespace {

template <class Function>
Function* entry(const char* name) {
  void* pointer = nullptr;
  CUdriverProcAddressQueryResult status;
  EXPECT_EQ(CUDA_SUCCESS, cuGetProcAddress(name, &pointer, 13000, 0, &status)) << name;
  EXPECT_EQ(CU_GET_PROC_ADDRESS_SUCCESS, status);
  return reinterpret_cast<Function*>(pointer);
}

TEST(Driver, LaunchesOnTheRuntimesStreams) {
  ASSERT_EQ(CUDA_SUCCESS, cuInit(0));
  CUmodule module;
  CUfunction function;
  ASSERT_EQ(CUDA_SUCCESS, entry<decltype(cuModuleLoadData)>("cuModuleLoadData")(&module, ""));
  ASSERT_EQ(CUDA_SUCCESS,
            entry<decltype(cuModuleGetFunction)>("cuModuleGetFunction")(&function, module, "triton_2ms"));
  TestStream stream;
  Event begin, end;
  Gate gate;
  ASSERT_CUDA(gate.hold(stream));
  begin.record(stream);
  ASSERT_EQ(CUDA_SUCCESS, entry<decltype(cuLaunchKernel)>("cuLaunchKernel")(function, 4, 1, 1, 128, 1, 1, 0,
                                                                            stream, nullptr, nullptr));
  end.record(stream);
  gate.open();
  ASSERT_EQ(CUDA_SUCCESS, cuStreamSynchronize(stream));
  EXPECT_NEAR(2000, elapsed_us(begin, end), kExactUs);
  EXPECT_EQ("triton_2ms", truth_lines("op", "kernel").back().word("name"));
}

TEST(Driver, TheRuntimeHandsOutItsFunctions) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult status;
  ASSERT_CUDA(cudaGetDriverEntryPointByVersion("cuMemAlloc", &function, 13000, cudaEnableDefault, &status));
  EXPECT_EQ(cudaDriverEntryPointSuccess, status);
  EXPECT_EQ(reinterpret_cast<void*>(&cuMemAlloc_v2), function);
  ASSERT_CUDA(
      cudaGetDriverEntryPointByVersion("cuNoSuchThing", &function, 13000, cudaEnableDefault, &status));
  EXPECT_EQ(cudaDriverEntryPointSymbolNotFound, status);
}

TEST(Driver, AnUnknownFunctionSaysItsName) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cuMemAdvise_v2(0, 0, CU_MEM_ADVISE_SET_READ_MOSTLY, {}));
  EXPECT_NE(std::string::npos, testing::internal::GetCapturedStderr().find("unimplemented: cuMemAdvise_v2"));
}

}  // namespace
