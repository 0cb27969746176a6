// SPDX-License-Identifier: Apache-2.0
// Modules, libraries, functions, and their launch. An image is not looked at: a module has every function
// that is asked for.
#include <unistd.h>

#include "core/device_attributes.h"
#include "core/launch.h"
#include "driver.h"

using namespace gpuwatch::sim;

namespace {

char g_image;  // what all modules and libraries are handles of

CUresult find_function(const char* name, const Kernel** kernel) {
  if (!name || !*name) return CUDA_ERROR_INVALID_VALUE;
  *kernel = Kernel::find_or_add(name);
  return CUDA_SUCCESS;
}

template <class Handle>
Handle handle_of(const Kernel* kernel) {
  return reinterpret_cast<Handle>(const_cast<Kernel*>(kernel));
}

CUresult launch(DriverCall& call, const Kernel* kernel, const LaunchShape& shape, CUstream handle) {
  Stream* stream = resolve(handle);
  if (!kernel || !stream) return call.done(CUDA_ERROR_INVALID_HANDLE);
  const bool fits = launch(*kernel, shape, *stream, call.correlation(), call.begin_ns());
  return call.done(fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult function_attribute(int* value, CUfunction_attribute attribute) {
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? kThreadsPerBlock
           : attribute == CU_FUNC_ATTRIBUTE_NUM_REGS            ? 32
                                                                : 0;
  return CUDA_SUCCESS;
}

}  // namespace

GWSIM_EXPORT CUresult cuModuleLoadData(CUmodule* module, const void*) {
  GWSIM_CALL(cuModuleLoadData);
  *module = reinterpret_cast<CUmodule>(&g_image);
  return call.done();
}
GWSIM_EXPORT CUresult cuModuleLoadDataEx(CUmodule* module, const void*, unsigned, CUjit_option*, void**) {
  GWSIM_CALL(cuModuleLoadDataEx);
  *module = reinterpret_cast<CUmodule>(&g_image);
  return call.done();
}
GWSIM_EXPORT CUresult cuModuleLoadFatBinary(CUmodule* module, const void*) {
  GWSIM_CALL(cuModuleLoadFatBinary);
  *module = reinterpret_cast<CUmodule>(&g_image);
  return call.done();
}
GWSIM_EXPORT CUresult cuModuleLoad(CUmodule* module, const char* path) {
  GWSIM_CALL(cuModuleLoad);
  if (!module || !path) return call.done(CUDA_ERROR_INVALID_VALUE);
  if (access(path, R_OK) != 0) return call.done(CUDA_ERROR_FILE_NOT_FOUND);
  *module = reinterpret_cast<CUmodule>(&g_image);
  return call.done();
}
GWSIM_EXPORT CUresult cuModuleUnload(CUmodule) {
  GWSIM_CALL(cuModuleUnload);
  return call.done();
}
GWSIM_EXPORT CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  GWSIM_CALL(cuModuleGetFunction);
  const Kernel* kernel = nullptr;
  const CUresult result = find_function(name, &kernel);
  *function = handle_of<CUfunction>(kernel);
  return call.done(result);
}

GWSIM_EXPORT CUresult cuLibraryLoadData(CUlibrary* library, const void*, CUjit_option*, void**, unsigned,
                                        CUlibraryOption*, void**, unsigned) {
  GWSIM_CALL(cuLibraryLoadData);
  *library = reinterpret_cast<CUlibrary>(&g_image);
  return call.done();
}
GWSIM_EXPORT CUresult cuLibraryUnload(CUlibrary) {
  GWSIM_CALL(cuLibraryUnload);
  return call.done();
}
GWSIM_EXPORT CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary, const char* name) {
  GWSIM_CALL(cuLibraryGetKernel);
  const Kernel* found = nullptr;
  const CUresult result = find_function(name, &found);
  *kernel = handle_of<CUkernel>(found);
  return call.done(result);
}
GWSIM_EXPORT CUresult cuLibraryGetModule(CUmodule* module, CUlibrary) {
  GWSIM_SILENT_CALL(cuLibraryGetModule);
  *module = reinterpret_cast<CUmodule>(&g_image);
  return call.done();
}
GWSIM_EXPORT CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  GWSIM_SILENT_CALL(cuKernelGetFunction);
  const Kernel* found = Kernel::from_handle(kernel);
  *function = handle_of<CUfunction>(found);
  return call.done(found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

GWSIM_EXPORT CUresult cuFuncGetName(const char** name, CUfunction function) {
  GWSIM_SILENT_CALL(cuFuncGetName);
  const Kernel* kernel = Kernel::from_handle(function);
  *name = name_of(kernel);
  return call.done(kernel ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}
GWSIM_EXPORT CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction) {
  GWSIM_SILENT_CALL(cuFuncGetAttribute);
  return call.done(function_attribute(value, attribute));
}
GWSIM_EXPORT CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel, CUdevice) {
  GWSIM_SILENT_CALL(cuKernelGetAttribute);
  return call.done(function_attribute(value, attribute));
}
GWSIM_EXPORT CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) {
  GWSIM_SILENT_CALL(cuFuncSetAttribute);
  return call.done();
}
GWSIM_EXPORT CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) {
  GWSIM_SILENT_CALL(cuFuncSetCacheConfig);
  return call.done();
}

GWSIM_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function,
                                                                  int block_size, size_t shared_bytes) {
  GWSIM_SILENT_CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor);
  if (!Kernel::from_handle(function)) return call.done(CUDA_ERROR_INVALID_HANDLE);
  *blocks = active_blocks_per_multiprocessor(block_size, shared_bytes);
  return call.done();
}

// A CUkernel may stand where a CUfunction is wanted; both are the same here.
GWSIM_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                     unsigned by, unsigned bz, unsigned shared_bytes, CUstream stream, void**,
                                     void**) {
  const Kernel* kernel = Kernel::from_handle(function);
  GWSIM_LAUNCH_CALL(cuLaunchKernel, name_of(kernel));
  return launch(call, kernel, {{gx, gy, gz}, {bx, by, bz}, shared_bytes}, stream);
}
GWSIM_EXPORT CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz,
                                                unsigned bx, unsigned by, unsigned bz, unsigned shared_bytes,
                                                CUstream stream, void**) {
  const Kernel* kernel = Kernel::from_handle(function);
  GWSIM_LAUNCH_CALL(cuLaunchCooperativeKernel, name_of(kernel));
  return launch(call, kernel, {{gx, gy, gz}, {bx, by, bz}, shared_bytes}, stream);
}
GWSIM_EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig* c, CUfunction function, void**, void**) {
  const Kernel* kernel = Kernel::from_handle(function);
  GWSIM_LAUNCH_CALL(cuLaunchKernelEx, name_of(kernel));
  if (!c) return call.done(CUDA_ERROR_INVALID_VALUE);
  const LaunchShape shape{
      {c->gridDimX, c->gridDimY, c->gridDimZ}, {c->blockDimX, c->blockDimY, c->blockDimZ}, c->sharedMemBytes};
  return launch(call, kernel, shape, c->hStream);
}

GWSIM_EXPORT CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* data) {
  GWSIM_CALL(cuLaunchHostFunc);
  Stream* stream = resolve(handle);
  if (!stream) return call.done(CUDA_ERROR_INVALID_HANDLE);
  if (!function) return call.done(CUDA_ERROR_INVALID_VALUE);
  launch_host_function([function, data] { function(data); }, *stream, call.correlation());
  return call.done();
}
