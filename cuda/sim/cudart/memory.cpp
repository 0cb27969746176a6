// SPDX-License-Identifier: Apache-2.0
// Allocation. cudaMalloc and the pinned allocations take their configured time; cudaFree waits for the device
// first, as the real one does in practice.
#include "core/memory.h"

#include <cstring>

#include "pool.h"
#include "runtime.h"

using namespace gpuwatch::sim;

namespace {

constexpr size_t kPitchBytes = 512;

cudaError_t allocate(RuntimeCall& call, void** pointer, size_t size_bytes, MemoryKind kind, Ns cost_ns) {
  if (!pointer) return call.done(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (size_bytes == 0) return call.done();
  *pointer = Memory::instance().allocate(size_bytes, kind, current_device());
  if (!*pointer) return call.done(cudaErrorMemoryAllocation);
  sleep_until(call.begin_ns() + cost_ns, config().spin_ns);
  return call.done();
}

void wait_for_device(RuntimeCall& call) {
  Ns until = 0;
  for (const MarkerRef& marker : Timeline::instance().record_all(current_device())) {
    until = std::max(until, Timeline::instance().wait_host(marker));
  }
  if (until > call.begin_ns()) call.waited(until);
}

cudaError_t release(RuntimeCall& call, void* pointer, bool host_kinds) {
  if (!pointer) return call.done();
  wait_for_device(call);
  sleep_until(now_ns() + config().free_cost_ns, config().spin_ns);
  const bool released =
      (!host_kinds && free_from_any_pool(pointer)) || Memory::instance().release(pointer, host_kinds);
  return call.done(released ? cudaSuccess : cudaErrorInvalidValue);
}

size_t pitched(size_t width_bytes) {
  return (width_bytes + kPitchBytes - 1) / kPitchBytes * kPitchBytes;
}

}  // namespace

GWSIM_EXPORT cudaError_t cudaMalloc(void** pointer, size_t size_bytes) {
  GWSIM_CALL(cudaMalloc);
  return allocate(call, pointer, size_bytes, MemoryKind::kDevice, config().malloc_cost_ns);
}
GWSIM_EXPORT cudaError_t cudaMallocManaged(void** pointer, size_t size_bytes, unsigned) {
  GWSIM_CALL(cudaMallocManaged);
  return allocate(call, pointer, size_bytes, MemoryKind::kManaged, config().malloc_cost_ns);
}
GWSIM_EXPORT cudaError_t cudaMallocHost(void** pointer, size_t size_bytes) {
  GWSIM_CALL(cudaMallocHost);
  return allocate(call, pointer, size_bytes, MemoryKind::kPinned, config().host_alloc_cost_ns);
}
GWSIM_EXPORT cudaError_t cudaHostAlloc(void** pointer, size_t size_bytes, unsigned) {
  GWSIM_CALL(cudaHostAlloc);
  return allocate(call, pointer, size_bytes, MemoryKind::kPinned, config().host_alloc_cost_ns);
}
GWSIM_EXPORT cudaError_t cudaMallocPitch(void** pointer, size_t* pitch_bytes, size_t width_bytes,
                                         size_t height) {
  GWSIM_CALL(cudaMallocPitch);
  if (!pitch_bytes) return call.done(cudaErrorInvalidValue);
  *pitch_bytes = pitched(width_bytes);
  return allocate(call, pointer, *pitch_bytes * height, MemoryKind::kDevice, config().malloc_cost_ns);
}
GWSIM_EXPORT cudaError_t cudaMalloc3D(cudaPitchedPtr* pitched_pointer, cudaExtent extent) {
  GWSIM_CALL(cudaMalloc3D);
  if (!pitched_pointer) return call.done(cudaErrorInvalidValue);
  pitched_pointer->pitch = pitched(extent.width);
  pitched_pointer->xsize = extent.width;
  pitched_pointer->ysize = extent.height;
  const size_t size_bytes = pitched_pointer->pitch * extent.height * extent.depth;
  return allocate(call, &pitched_pointer->ptr, size_bytes, MemoryKind::kDevice, config().malloc_cost_ns);
}

GWSIM_EXPORT cudaError_t cudaFree(void* pointer) {
  GWSIM_CALL(cudaFree);
  return release(call, pointer, false);
}
GWSIM_EXPORT cudaError_t cudaFreeHost(void* pointer) {
  GWSIM_CALL(cudaFreeHost);
  return release(call, pointer, true);
}

GWSIM_EXPORT cudaError_t cudaHostRegister(void* pointer, size_t size_bytes, unsigned) {
  GWSIM_CALL(cudaHostRegister);
  if (!pointer || !size_bytes) return call.done(cudaErrorInvalidValue);
  if (!Memory::instance().register_host(pointer, size_bytes)) {
    return call.done(cudaErrorHostMemoryAlreadyRegistered);
  }
  sleep_until(call.begin_ns() + config().host_alloc_cost_ns, config().spin_ns);
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaHostUnregister(void* pointer) {
  GWSIM_CALL(cudaHostUnregister);
  const bool known = Memory::instance().unregister_host(pointer);
  return call.done(known ? cudaSuccess : cudaErrorHostMemoryNotRegistered);
}
GWSIM_EXPORT cudaError_t cudaHostGetDevicePointer(void** device_pointer, void* host_pointer, unsigned) {
  GWSIM_SILENT_CALL(cudaHostGetDevicePointer);
  if (!device_pointer || !Memory::instance().find(host_pointer)) return call.done(cudaErrorInvalidValue);
  *device_pointer = host_pointer;
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaHostGetFlags(unsigned* flags, void* pointer) {
  GWSIM_SILENT_CALL(cudaHostGetFlags);
  if (!flags || !Memory::instance().find(pointer)) return call.done(cudaErrorInvalidValue);
  *flags = cudaHostAllocMapped;
  return call.done();
}

GWSIM_EXPORT cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  GWSIM_CALL(cudaMemGetInfo);
  if (!free_bytes || !total_bytes) return call.done(cudaErrorInvalidValue);
  *total_bytes = config().memory_bytes;
  *free_bytes = config().memory_bytes - Memory::instance().used_bytes(current_device());
  return call.done();
}

GWSIM_EXPORT cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  GWSIM_SILENT_CALL(cudaPointerGetAttributes);
  if (!attributes) return call.done(cudaErrorInvalidValue);
  std::memset(attributes, 0, sizeof *attributes);
  const auto block = Memory::instance().find(pointer);
  void* address = const_cast<void*>(pointer);
  if (!block) {
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = cudaInvalidDeviceId;
    attributes->hostPointer = address;
    return call.done();
  }
  attributes->type = block->kind == MemoryKind::kPinned    ? cudaMemoryTypeHost
                     : block->kind == MemoryKind::kManaged ? cudaMemoryTypeManaged
                                                           : cudaMemoryTypeDevice;
  attributes->device = static_cast<int>(block->device);
  attributes->devicePointer = address;
  attributes->hostPointer = block->kind == MemoryKind::kDevice ? nullptr : address;
  return call.done();
}

GWSIM_EXPORT cudaError_t cudaMemAdvise(const void*, size_t, cudaMemoryAdvise, cudaMemLocation) {
  GWSIM_SILENT_CALL(cudaMemAdvise);
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaMemPrefetchAsync(const void*, size_t, cudaMemLocation, unsigned,
                                              cudaStream_t stream) {
  GWSIM_CALL(cudaMemPrefetchAsync);
  return call.done(resolve(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}
GWSIM_EXPORT cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  GWSIM_SILENT_CALL(cudaGetSymbolAddress);
  size_t size_bytes;
  return call.done(find_symbol(symbol, address, &size_bytes) ? cudaSuccess : cudaErrorInvalidSymbol);
}
GWSIM_EXPORT cudaError_t cudaGetSymbolSize(size_t* size_bytes, const void* symbol) {
  GWSIM_SILENT_CALL(cudaGetSymbolSize);
  void* address;
  return call.done(find_symbol(symbol, &address, size_bytes) ? cudaSuccess : cudaErrorInvalidSymbol);
}
