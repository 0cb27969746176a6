// SPDX-License-Identifier: Apache-2.0
// The driver stand-in, reached as launchers reach it: by name, through cuGetProcAddress.
#include <cuda.h>
#include <dlfcn.h>

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

struct Found {
  void* function = nullptr;
  CUresult result;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
};
Found find(const char* name, int version, cuuint64_t flags = CU_GET_PROC_ADDRESS_DEFAULT) {
  Found found;
  found.result = cuGetProcAddress(name, &found.function, version, flags, &found.status);
  return found;
}
// What the linker finds under this name.
void* exported(const char* name) {
  static void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  return dlsym(driver, name);
}

TEST(Driver, ANameMeansTheFunctionOfTheVersionAskedFor) {
  EXPECT_EQ(exported("cuMemAlloc_v2"), find("cuMemAlloc", 13000).function);
  EXPECT_EQ(exported("cuMemAlloc_v2"), find("cuMemAlloc", 3020).function);
  EXPECT_EQ(exported("cuMemAlloc"), find("cuMemAlloc", 3010).function);
  EXPECT_EQ(exported("cuEventElapsedTime"), find("cuEventElapsedTime", 12070).function);
  EXPECT_EQ(exported("cuEventElapsedTime_v2"), find("cuEventElapsedTime", 12080).function);
  EXPECT_EQ(exported("cuCtxCreate_v2"), find("cuCtxCreate", 11030).function);
  EXPECT_EQ(exported("cuCtxCreate_v4"), find("cuCtxCreate", 13000).function);
  EXPECT_EQ(exported("cuGetProcAddress_v2"), find("cuGetProcAddress", 12000).function);
}

TEST(Driver, WhatIsNotFoundSaysWhy) {
  const Found too_new = find("cuLaunchKernelEx", 11050);
  EXPECT_EQ(CUDA_SUCCESS, too_new.result);
  EXPECT_EQ(nullptr, too_new.function);
  EXPECT_EQ(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT, too_new.status);
  const Found unknown = find("cuNoSuchThing", 13000);
  EXPECT_EQ(CUDA_SUCCESS, unknown.result);
  EXPECT_EQ(nullptr, unknown.function);
  EXPECT_EQ(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, unknown.status);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, find("cuInit", 99000).result);  // newer than the driver
  // A version is no part of the name that is asked for.
  EXPECT_EQ(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, find("cuMemAlloc_v2", 13000).status);
}

TEST(Driver, PerThreadStreamsAreAskedForByFlag) {
  constexpr auto kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  EXPECT_EQ(exported("cuStreamSynchronize_ptsz"), find("cuStreamSynchronize", 13000, kPerThread).function);
  EXPECT_EQ(exported("cuStreamSynchronize"), find("cuStreamSynchronize", 13000).function);
  EXPECT_EQ(exported("cuMemcpyHtoD_v2_ptds"), find("cuMemcpyHtoD", 13000, kPerThread).function);
  EXPECT_EQ(exported("cuMemAlloc_v2"),
            find("cuMemAlloc", 13000, kPerThread).function);  // has none of its own
  // There was no per-thread stream before 7.0.
  EXPECT_EQ(exported("cuStreamSynchronize"), find("cuStreamSynchronize", 6050, kPerThread).function);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
            find("cuInit", 13000, kPerThread | CU_GET_PROC_ADDRESS_LEGACY_STREAM).result);
}

CUfunction function_named(const char* name) {
  CUlibrary library;
  CUkernel kernel;
  CUfunction function;
  EXPECT_EQ(CUDA_SUCCESS, cuLibraryLoadData(&library, "", nullptr, nullptr, 0, nullptr, nullptr, 0));
  EXPECT_EQ(CUDA_SUCCESS, cuLibraryGetKernel(&kernel, library, name));
  EXPECT_EQ(CUDA_SUCCESS, cuKernelGetFunction(&function, kernel));
  return function;
}

TEST(Driver, APerThreadLaunchGoesToTheThreadsOwnStream) {
  const CUfunction function = function_named("own_1ms");
  const auto launch = reinterpret_cast<decltype(&cuLaunchKernelEx)>(
      find("cuLaunchKernelEx", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM).function);
  CUlaunchConfig shape{};
  shape.gridDimX = shape.gridDimY = shape.gridDimZ = shape.blockDimX = shape.blockDimY = shape.blockDimZ = 1;
  ASSERT_EQ(CUDA_SUCCESS, launch(&shape, function, nullptr, nullptr));
  ASSERT_EQ(CUDA_SUCCESS, cuLaunchKernelEx(&shape, function, nullptr, nullptr));
  shape.hStream = CU_STREAM_PER_THREAD;
  ASSERT_EQ(CUDA_SUCCESS, cuLaunchKernelEx(&shape, function, nullptr, nullptr));
  ASSERT_EQ(CUDA_SUCCESS, cuCtxSynchronize());
  const auto kernels = truth_lines("op", "kernel");
  const size_t count = kernels.size();
  const auto stream = [&](size_t from_end) { return kernels[count - from_end].number("stream"); };
  EXPECT_EQ(stream(3), stream(1));
  EXPECT_NE(stream(3), stream(2));
  EXPECT_EQ(1u, truth_lines("host", "cuLaunchKernelEx_ptsz").size());
}

TEST(Driver, EventsOrderStreamsAndTellTime) {
  const CUfunction first = function_named("first_3ms"), second = function_named("second_1ms");
  CUstream a, b;
  ASSERT_EQ(CUDA_SUCCESS, cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
  ASSERT_EQ(CUDA_SUCCESS, cuStreamCreateWithPriority(&b, CU_STREAM_NON_BLOCKING, -1));
  CUevent begin, middle, end;
  for (CUevent* event : {&begin, &middle, &end}) ASSERT_EQ(CUDA_SUCCESS, cuEventCreate(event, 0));
  Gate gate;
  ASSERT_CUDA(gate.hold(a));
  ASSERT_EQ(CUDA_SUCCESS, cuEventRecord(begin, a));
  ASSERT_EQ(CUDA_SUCCESS, cuLaunchKernel(first, 1, 1, 1, 1, 1, 1, 0, a, nullptr, nullptr));
  ASSERT_EQ(CUDA_SUCCESS, cuEventRecord(middle, a));
  ASSERT_EQ(CUDA_SUCCESS, cuStreamWaitEvent(b, middle, 0));
  ASSERT_EQ(CUDA_SUCCESS, cuLaunchKernel(second, 1, 1, 1, 1, 1, 1, 0, b, nullptr, nullptr));
  ASSERT_EQ(CUDA_SUCCESS, cuEventRecord(end, b));
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cuEventQuery(end));
  gate.open();
  ASSERT_EQ(CUDA_SUCCESS, cuEventSynchronize(end));
  EXPECT_EQ(CUDA_SUCCESS, cuEventQuery(end));
  float ms = 0;
  ASSERT_EQ(CUDA_SUCCESS, cuEventElapsedTime(&ms, begin, end));
  EXPECT_NEAR(4000, ms * 1e3, kExactUs);
  for (CUevent event : {begin, middle, end}) EXPECT_EQ(CUDA_SUCCESS, cuEventDestroy(event));
  for (CUstream stream : {a, b}) EXPECT_EQ(CUDA_SUCCESS, cuStreamDestroy(stream));
}

TEST(Driver, CopiesAndFillsMoveData) {
  CUdeviceptr device;
  void* pinned;
  unsigned char back[64] = {};
  ASSERT_EQ(CUDA_SUCCESS, cuMemAlloc(&device, sizeof back));
  ASSERT_EQ(CUDA_SUCCESS, cuMemAllocHost(&pinned, sizeof back));
  ASSERT_EQ(CUDA_SUCCESS, cuMemsetD8(device, 7, sizeof back));
  static_cast<unsigned char*>(pinned)[1] = 9;
  ASSERT_EQ(CUDA_SUCCESS, cuMemcpyHtoDAsync(device, pinned, 2, nullptr));
  ASSERT_EQ(CUDA_SUCCESS, cuMemcpyDtoH(back, device, sizeof back));
  EXPECT_EQ(9, back[1]);
  EXPECT_EQ(7, back[2]);
  EXPECT_EQ(CUDA_SUCCESS, cuMemFreeHost(pinned));
  EXPECT_EQ(CUDA_SUCCESS, cuMemFree(device));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemFree(device));
}

TEST(Driver, TellsWhoseAPointerIs) {
  const auto attribute = [](CUpointer_attribute which, CUdeviceptr address, auto* value) {
    return cuPointerGetAttribute(value, which, address);
  };
  CUdeviceptr device, start;
  void* pinned;
  unsigned type;
  size_t bytes;
  ASSERT_EQ(CUDA_SUCCESS, cuMemAlloc(&device, 64));
  ASSERT_EQ(CUDA_SUCCESS, cuMemAllocHost(&pinned, 64));
  ASSERT_EQ(CUDA_SUCCESS, attribute(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device + 8, &type));
  EXPECT_EQ(unsigned{CU_MEMORYTYPE_DEVICE}, type);
  ASSERT_EQ(CUDA_SUCCESS, attribute(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CUdeviceptr(pinned), &type));
  EXPECT_EQ(unsigned{CU_MEMORYTYPE_HOST}, type);
  ASSERT_EQ(CUDA_SUCCESS, attribute(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, device + 8, &start));
  ASSERT_EQ(CUDA_SUCCESS, attribute(CU_POINTER_ATTRIBUTE_RANGE_SIZE, device + 8, &bytes));
  EXPECT_EQ(device, start);
  EXPECT_EQ(64u, bytes);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, attribute(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CUdeviceptr(&type), &type));
  EXPECT_EQ(CUDA_SUCCESS, cuMemFreeHost(pinned));
  EXPECT_EQ(CUDA_SUCCESS, cuMemFree(device));
}

TEST(Driver, AModuleOfAFileNeedsTheFile) {
  CUmodule module;
  EXPECT_EQ(CUDA_SUCCESS, cuModuleLoad(&module, "/proc/self/exe"));
  EXPECT_EQ(CUDA_ERROR_FILE_NOT_FOUND, cuModuleLoad(&module, "/no/such/file"));
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
