// SPDX-License-Identifier: Apache-2.0
// The libcuda stand-in: what programs reach through the driver API (Triton-like launchers, extension modules,
// cuGetProcAddress), on the same timeline and with the same streams as the runtime's stand-in. Contexts are
// names for devices; modules are not looked at, a function is its name.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "callback_ids.h"
#include "core/api_call.h"
#include "core/config.h"
#include "core/context.h"
#include "core/copy.h"
#include "core/device_attributes.h"
#include "core/graph.h"
#include "core/memory.h"

#define GWSIM_EXPORT extern "C" __attribute__((visibility("default")))
#define GWSIM_CALL(function)                                                                           \
  static constexpr ::gpuwatch::sim::ApiInfo kInfo{::gpuwatch::sim::ApiDomain::kDriver,                 \
                                                  ::gpuwatch::sim::kDriverCbid_##function, #function}; \
  ::gpuwatch::sim::ApiCall call((::gpuwatch::sim::ensure_initialized(), kInfo))

using namespace gpuwatch::sim;

namespace {

bool exists(CUdevice device) {
  return device >= 0 && device < config().devices;
}

Stream* resolve(CUstream handle) {
  Timeline& timeline = Timeline::instance();
  if (handle == nullptr || handle == CU_STREAM_LEGACY) return timeline.legacy_stream(current_device());
  if (handle == CU_STREAM_PER_THREAD) return timeline.per_thread_stream(current_device());
  auto* stream = reinterpret_cast<Stream*>(handle);
  return timeline.is_stream(stream) ? stream : nullptr;
}

// A context's handle says its device, plus one so that it is not null.
CUcontext context_of(uint32_t device) {
  return reinterpret_cast<CUcontext>(uintptr_t{device} + 1);
}

void* at(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}

CUresult launch(ApiCall& call, CUfunction function, const unsigned (&grid)[3], const unsigned (&block)[3],
                unsigned shared_bytes, CUstream handle) {
  const Kernel* kernel = Kernel::from_handle(function);
  Stream* stream = resolve(handle);
  if (!kernel || !stream) return call.done(CUDA_ERROR_INVALID_HANDLE);
  Op op;
  op.kind = OpKind::kKernel;
  op.kernel = kernel;
  op.correlation = call.correlation();
  std::memcpy(op.grid, grid, sizeof grid);
  std::memcpy(op.block, block, sizeof block);
  op.shared_bytes = shared_bytes;
  op.duration_ns = kernel->duration_ns(uint64_t{grid[0]} * grid[1] * grid[2]);
  op.latency_ns = config().launch_latency_ns;
  issue(*stream, std::move(op));
  spin_until(call.begin_ns() + config().launch_cost_ns);
  return call.done(CUDA_SUCCESS);
}

CUresult run_copy(ApiCall& call, void* dst, const void* src, size_t bytes, CUstream handle, bool async) {
  Stream* stream = resolve(handle);
  if (!stream) return call.done(CUDA_ERROR_INVALID_HANDLE);
  call.waited(copy(dst, src, {bytes}, *stream, async, call.correlation()));
  return call.done(CUDA_SUCCESS);
}

// Where the program asks for a name, the newest exported version of it is meant.
void* find_entry(const char* symbol) {
  static void* self = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  for (const char* suffix : {"_v4", "_v3", "_v2", ""}) {
    if (void* entry = dlsym(self, (std::string(symbol) + suffix).c_str())) return entry;
  }
  return nullptr;
}

}  // namespace

GWSIM_EXPORT CUresult cuInit(unsigned) {
  GWSIM_CALL(cuInit);
  return call.done(config().devices > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE);
}
GWSIM_EXPORT CUresult cuDriverGetVersion(int* version) {
  *version = kCudaVersion;
  return CUDA_SUCCESS;
}
GWSIM_EXPORT CUresult cuGetErrorName(CUresult error, const char** name) {
  for (const ErrorName& entry : kDriverErrorNames) {
    if (entry.code == static_cast<int>(error)) return *name = entry.name, CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}
GWSIM_EXPORT CUresult cuGetErrorString(CUresult error, const char** text) {
  for (const ErrorName& entry : kDriverErrorNames) {
    if (entry.code == static_cast<int>(error)) return *text = entry.text, CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

GWSIM_EXPORT CUresult cuDeviceGetCount(int* count) {
  *count = config().devices;
  return CUDA_SUCCESS;
}
GWSIM_EXPORT CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (!exists(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}
GWSIM_EXPORT CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  if (!exists(device) || length <= 0) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(name, static_cast<size_t>(length), "%s", config().device_name.c_str());
  return CUDA_SUCCESS;
}
GWSIM_EXPORT CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  if (!exists(device)) return CUDA_ERROR_INVALID_DEVICE;
  *value = device_attribute(attribute, device);
  return CUDA_SUCCESS;
}
GWSIM_EXPORT CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  if (!exists(device)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = config().memory_bytes;
  return CUDA_SUCCESS;
}
GWSIM_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  if (!exists(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::memset(uuid, 0, sizeof *uuid);
  uuid->bytes[15] = static_cast<char>(device + 1);
  return CUDA_SUCCESS;
}

GWSIM_EXPORT CUresult cuDeviceGetPCIBusId(char* id, int length, CUdevice device) {
  if (!id || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!exists(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(id, static_cast<size_t>(length), "0000:00:%02x.0", device);
  return CUDA_SUCCESS;
}

GWSIM_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  GWSIM_CALL(cuDevicePrimaryCtxRetain);
  if (!exists(device)) return call.done(CUDA_ERROR_INVALID_DEVICE);
  *context = context_of(static_cast<uint32_t>(device));
  return call.done(CUDA_SUCCESS);
}
GWSIM_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) {
  return CUDA_SUCCESS;
}
GWSIM_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned* flags, int* active) {
  *flags = 0;
  *active = 1;
  return CUDA_SUCCESS;
}
GWSIM_EXPORT CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = context_of(current_device());
  return CUDA_SUCCESS;
}
GWSIM_EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
  const bool known =
      !context || set_current_device(static_cast<int>(reinterpret_cast<uintptr_t>(context) - 1));
  return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
GWSIM_EXPORT CUresult cuCtxGetDevice(CUdevice* device) {
  *device = static_cast<CUdevice>(current_device());
  return CUDA_SUCCESS;
}
GWSIM_EXPORT CUresult cuCtxSynchronize() {
  GWSIM_CALL(cuCtxSynchronize);
  Ns until = 0;
  for (const MarkerRef& marker : Timeline::instance().record_all(current_device())) {
    until = std::max(until, Timeline::instance().wait_host(marker));
  }
  call.waited(until);
  return call.done(CUDA_SUCCESS);
}

GWSIM_EXPORT CUresult cuModuleLoadData(CUmodule* module, const void*) {
  GWSIM_CALL(cuModuleLoadData);
  static char image;
  *module = reinterpret_cast<CUmodule>(&image);
  return call.done(CUDA_SUCCESS);
}
GWSIM_EXPORT CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*,
                                         void**) {
  return cuModuleLoadData(module, image);
}
GWSIM_EXPORT CUresult cuModuleUnload(CUmodule) {
  return CUDA_SUCCESS;
}
GWSIM_EXPORT CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  GWSIM_CALL(cuModuleGetFunction);
  *function = reinterpret_cast<CUfunction>(const_cast<Kernel*>(Kernel::find_or_add(name)));
  return call.done(CUDA_SUCCESS);
}
GWSIM_EXPORT CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction) {
  *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? kThreadsPerBlock
           : attribute == CU_FUNC_ATTRIBUTE_NUM_REGS            ? 32
                                                                : 0;
  return CUDA_SUCCESS;
}
GWSIM_EXPORT CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) {
  return CUDA_SUCCESS;
}

GWSIM_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                     unsigned by, unsigned bz, unsigned shared_bytes, CUstream stream, void**,
                                     void**) {
  GWSIM_CALL(cuLaunchKernel);
  return launch(call, function, {gx, gy, gz}, {bx, by, bz}, shared_bytes, stream);
}
GWSIM_EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig* c, CUfunction function, void**, void**) {
  GWSIM_CALL(cuLaunchKernelEx);
  return launch(call, function, {c->gridDimX, c->gridDimY, c->gridDimZ},
                {c->blockDimX, c->blockDimY, c->blockDimZ}, c->sharedMemBytes, c->hStream);
}

GWSIM_EXPORT CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  GWSIM_CALL(cuStreamCreate);
  const StreamRule rule = flags & CU_STREAM_NON_BLOCKING ? StreamRule::kNonBlocking : StreamRule::kBlocking;
  *stream = reinterpret_cast<CUstream>(Timeline::instance().create_stream(current_device(), rule, 0));
  return call.done(CUDA_SUCCESS);
}
GWSIM_EXPORT CUresult cuStreamDestroy_v2(CUstream handle) {
  GWSIM_CALL(cuStreamDestroy_v2);
  Stream* stream = handle ? resolve(handle) : nullptr;
  if (!stream) return call.done(CUDA_ERROR_INVALID_HANDLE);
  Timeline::instance().destroy_stream(stream);
  return call.done(CUDA_SUCCESS);
}
GWSIM_EXPORT CUresult cuStreamSynchronize(CUstream handle) {
  GWSIM_CALL(cuStreamSynchronize);
  Stream* stream = resolve(handle);
  if (!stream) return call.done(CUDA_ERROR_INVALID_HANDLE);
  call.waited(Timeline::instance().wait_host(Timeline::instance().record(*stream)));
  if (Observer* observer = current_observer()) {
    observer->on_sync(
        {SyncKind::kStream, stream->device, stream->id, 0, call.correlation(), call.begin_ns(), now_ns()});
  }
  return call.done(CUDA_SUCCESS);
}
GWSIM_EXPORT CUresult cuStreamQuery(CUstream handle) {
  Stream* stream = resolve(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  return Timeline::passed(*Timeline::instance().record(*stream)) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

GWSIM_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  GWSIM_CALL(cuMemAlloc_v2);
  void* memory = Memory::instance().allocate(bytes, MemoryKind::kDevice, current_device());
  if (!memory) return call.done(CUDA_ERROR_OUT_OF_MEMORY);
  *address = reinterpret_cast<CUdeviceptr>(memory);
  sleep_until(call.begin_ns() + config().malloc_cost_ns, config().spin_ns);
  return call.done(CUDA_SUCCESS);
}
GWSIM_EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
  GWSIM_CALL(cuMemFree_v2);
  for (const MarkerRef& marker : Timeline::instance().record_all(current_device())) {
    Timeline::instance().wait_host(marker);
  }
  sleep_until(now_ns() + config().free_cost_ns, config().spin_ns);
  return call.done(Memory::instance().release(at(address), false) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}
GWSIM_EXPORT CUresult cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  *total_bytes = config().memory_bytes;
  *free_bytes = config().memory_bytes - Memory::instance().used_bytes(current_device());
  return CUDA_SUCCESS;
}
GWSIM_EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void* src, size_t bytes) {
  GWSIM_CALL(cuMemcpyHtoD_v2);
  return run_copy(call, at(dst), src, bytes, nullptr, false);
}
GWSIM_EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void* src, size_t bytes, CUstream stream) {
  GWSIM_CALL(cuMemcpyHtoDAsync_v2);
  return run_copy(call, at(dst), src, bytes, stream, true);
}
GWSIM_EXPORT CUresult cuMemcpyDtoH_v2(void* dst, CUdeviceptr src, size_t bytes) {
  GWSIM_CALL(cuMemcpyDtoH_v2);
  return run_copy(call, dst, at(src), bytes, nullptr, false);
}
GWSIM_EXPORT CUresult cuMemcpyDtoHAsync_v2(void* dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  GWSIM_CALL(cuMemcpyDtoHAsync_v2);
  return run_copy(call, dst, at(src), bytes, stream, true);
}
GWSIM_EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  GWSIM_CALL(cuMemcpyDtoDAsync_v2);
  return run_copy(call, at(dst), at(src), bytes, stream, true);
}

GWSIM_EXPORT CUresult cuGetProcAddress_v2(const char* symbol, void** function, int, cuuint64_t,
                                          CUdriverProcAddressQueryResult* status) {
  if (!symbol || !function) return CUDA_ERROR_INVALID_VALUE;
  *function = find_entry(symbol);
  if (status) *status = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
