// SPDX-License-Identifier: Apache-2.0
// Questions about the device and about kernels. Answers are constant; nothing here waits.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "core/device_attributes.h"
#include "core/memory.h"
#include "runtime.h"

using namespace gpuwatch::sim;

namespace {

bool exists(int device) {
  return device >= 0 && device < config().devices;
}

void set_limits(cudaDeviceProp& p) {
  const ComputeLimits& limits = compute_limits();
  p.sharedMemPerBlock = kSharedBytesPerBlock;
  p.sharedMemPerBlockOptin = static_cast<size_t>(limits.shared_bytes_per_block_optin);
  p.sharedMemPerMultiprocessor = static_cast<size_t>(limits.shared_bytes_per_multiprocessor);
  p.reservedSharedMemPerBlock = static_cast<size_t>(limits.reserved_shared_bytes_per_block);
  p.regsPerBlock = 65536;
  p.regsPerMultiprocessor = kRegistersPerMultiprocessor;
  p.warpSize = 32;
  p.memPitch = 2147483647;
  p.maxThreadsPerBlock = kThreadsPerBlock;
  p.maxThreadsPerMultiProcessor = limits.threads_per_multiprocessor;
  p.maxBlocksPerMultiProcessor = limits.blocks_per_multiprocessor;
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
  p.maxThreadsDim[2] = 64;
  p.maxGridSize[0] = 2147483647;
  p.maxGridSize[1] = p.maxGridSize[2] = 65535;
  p.totalConstMem = 65536;
  p.textureAlignment = p.surfaceAlignment = 512;
  p.texturePitchAlignment = 32;
  p.memoryBusWidth = 5120;
  p.l2CacheSize = 52428800;
}

void set_abilities(cudaDeviceProp& p) {
  p.canMapHostMemory = 1;
  p.concurrentKernels = 1;
  p.asyncEngineCount = 2;
  p.unifiedAddressing = 1;
  p.streamPrioritiesSupported = 1;
  p.globalL1CacheSupported = p.localL1CacheSupported = 1;
  p.managedMemory = 1;
  p.computePreemptionSupported = 1;
  p.canUseHostPointerForRegisteredMem = 1;
  p.cooperativeLaunch = 1;
  p.hostRegisterSupported = 1;
  p.memoryPoolsSupported = 1;
  p.clusterLaunch = 1;
}

}  // namespace

GWSIM_EXPORT cudaError_t cudaGetDeviceCount(int* count) {
  GWSIM_SILENT_CALL(cudaGetDeviceCount);
  if (!count) return call.done(cudaErrorInvalidValue);
  *count = config().devices;
  return call.done(config().devices > 0 ? cudaSuccess : cudaErrorNoDevice);
}
GWSIM_EXPORT cudaError_t cudaGetDevice(int* device) {
  GWSIM_SILENT_CALL(cudaGetDevice);
  if (!device) return call.done(cudaErrorInvalidValue);
  *device = static_cast<int>(current_device());
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaSetDevice(int device) {
  GWSIM_CALL(cudaSetDevice);
  return call.done(set_current_device(device) ? cudaSuccess : cudaErrorInvalidDevice);
}
GWSIM_EXPORT cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
  GWSIM_CALL(cudaInitDevice);
  return call.done(exists(device) ? cudaSuccess : cudaErrorInvalidDevice);
}
GWSIM_EXPORT cudaError_t cudaSetDeviceFlags(unsigned) {
  GWSIM_SILENT_CALL(cudaSetDeviceFlags);
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  GWSIM_SILENT_CALL(cudaGetDeviceFlags);
  *flags = cudaDeviceScheduleAuto;
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaDeviceReset() {
  GWSIM_CALL(cudaDeviceReset);
  call.waited(wait_for_device());
  return call.done();
}

GWSIM_EXPORT cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  GWSIM_SILENT_CALL(cudaGetDeviceProperties);
  if (!p || !exists(device)) return call.done(cudaErrorInvalidDevice);
  std::memset(p, 0, sizeof *p);
  std::snprintf(p->name, sizeof p->name, "%s", config().device_name.c_str());
  p->uuid.bytes[15] = static_cast<char>(device + 1);
  p->totalGlobalMem = config().memory_bytes;
  p->major = config().compute_major;
  p->minor = config().compute_minor;
  p->multiProcessorCount = config().multiprocessors;
  p->pciDeviceID = device;
  set_limits(*p);
  set_abilities(*p);
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp*) {
  GWSIM_SILENT_CALL(cudaChooseDevice);
  *device = 0;
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  GWSIM_SILENT_CALL(cudaDeviceGetAttribute);
  if (!value || !exists(device)) return call.done(cudaErrorInvalidDevice);
  *value = device_attribute(attribute, device);
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  GWSIM_SILENT_CALL(cudaDeviceGetPCIBusId);
  if (!id || length <= 0 || !exists(device)) return call.done(cudaErrorInvalidValue);
  std::snprintf(id, static_cast<size_t>(length), "0000:00:%02x.0", device);
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  GWSIM_SILENT_CALL(cudaDeviceCanAccessPeer);
  if (!can || !exists(device) || !exists(peer)) return call.done(cudaErrorInvalidDevice);
  *can = device != peer;
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  GWSIM_SILENT_CALL(cudaDeviceEnablePeerAccess);
  return call.done(exists(peer) ? cudaSuccess : cudaErrorInvalidDevice);
}
GWSIM_EXPORT cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) {
  GWSIM_SILENT_CALL(cudaDeviceSetLimit);
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit) {
  GWSIM_SILENT_CALL(cudaDeviceGetLimit);
  *value = 0;
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* cache) {
  GWSIM_SILENT_CALL(cudaDeviceGetCacheConfig);
  *cache = cudaFuncCachePreferNone;
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) {
  GWSIM_SILENT_CALL(cudaDeviceSetCacheConfig);
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaRuntimeGetVersion(int* version) {
  GWSIM_SILENT_CALL(cudaRuntimeGetVersion);
  *version = CUDART_VERSION;
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaDriverGetVersion(int* version) {
  GWSIM_SILENT_CALL(cudaDriverGetVersion);
  *version = kCudaVersion;
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaProfilerStart() {
  return cudaSuccess;
}
GWSIM_EXPORT cudaError_t cudaProfilerStop() {
  return cudaSuccess;
}

GWSIM_EXPORT cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* a, const void* function) {
  GWSIM_SILENT_CALL(cudaFuncGetAttributes);
  if (!a || !find_kernel(function)) return call.done(cudaErrorInvalidDeviceFunction);
  std::memset(a, 0, sizeof *a);
  a->maxThreadsPerBlock = kThreadsPerBlock;
  a->numRegs = 32;
  a->ptxVersion = a->binaryVersion = config().compute_major * 10 + config().compute_minor;
  a->maxDynamicSharedSizeBytes = static_cast<int>(kSharedBytesPerBlock);
  a->preferredShmemCarveout = -1;
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute, int) {
  GWSIM_SILENT_CALL(cudaFuncSetAttribute);
  return call.done(find_kernel(function) ? cudaSuccess : cudaErrorInvalidDeviceFunction);
}
GWSIM_EXPORT cudaError_t cudaFuncSetCacheConfig(const void* function, cudaFuncCache) {
  GWSIM_SILENT_CALL(cudaFuncSetCacheConfig);
  return call.done(find_kernel(function) ? cudaSuccess : cudaErrorInvalidDeviceFunction);
}
GWSIM_EXPORT cudaError_t cudaFuncGetName(const char** name, const void* function) {
  GWSIM_SILENT_CALL(cudaFuncGetName);
  const Kernel* kernel = find_kernel(function);
  if (!kernel || !name) return call.done(cudaErrorInvalidDeviceFunction);
  *name = kernel->name();
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaGetKernel(cudaKernel_t* handle, const void* function) {
  GWSIM_SILENT_CALL(cudaGetKernel);
  const Kernel* kernel = find_kernel(function);
  *handle = reinterpret_cast<cudaKernel_t>(const_cast<Kernel*>(kernel));
  return call.done(kernel ? cudaSuccess : cudaErrorInvalidDeviceFunction);
}
GWSIM_EXPORT cudaError_t cudaGetFuncBySymbol(cudaFunction_t* handle, const void* function) {
  GWSIM_SILENT_CALL(cudaGetFuncBySymbol);
  const Kernel* kernel = find_kernel(function);
  *handle = reinterpret_cast<cudaFunction_t>(const_cast<Kernel*>(kernel));
  return call.done(kernel ? cudaSuccess : cudaErrorInvalidDeviceFunction);
}
GWSIM_EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                                       int block_size, size_t shared_bytes) {
  GWSIM_SILENT_CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessor);
  if (!find_kernel(function)) return call.done(cudaErrorInvalidDeviceFunction);
  *blocks = active_blocks_per_multiprocessor(block_size, shared_bytes);
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, const void* function, int block_size, size_t shared_bytes, unsigned) {
  GWSIM_SILENT_CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags);
  if (!find_kernel(function)) return call.done(cudaErrorInvalidDeviceFunction);
  *blocks = active_blocks_per_multiprocessor(block_size, shared_bytes);
  return call.done();
}
