// SPDX-License-Identifier: Apache-2.0
// Allocation, and what is known of a pointer. What the driver does too is in core/memory_calls.h.
#include "core/memory_calls.h"

#include <cstring>

#include "pool.h"
#include "runtime.h"

using namespace gpuwatch::sim;

namespace {

constexpr size_t kPitchBytes = 512;

cudaError_t allocate(RuntimeCall& call, void** pointer, size_t size_bytes, MemoryKind kind) {
  if (!pointer) return call.done(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (size_bytes == 0) return call.done();
  return call.done(gpuwatch::sim::allocate(call, pointer, size_bytes, kind));
}

size_t pitched(size_t width_bytes) {
  return (width_bytes + kPitchBytes - 1) / kPitchBytes * kPitchBytes;
}

}  // namespace

GWSIM_EXPORT cudaError_t cudaMalloc(void** pointer, size_t size_bytes) {
  GWSIM_CALL(cudaMalloc);
  return allocate(call, pointer, size_bytes, MemoryKind::kDevice);
}
GWSIM_EXPORT cudaError_t cudaMallocManaged(void** pointer, size_t size_bytes, unsigned) {
  GWSIM_CALL(cudaMallocManaged);
  return allocate(call, pointer, size_bytes, MemoryKind::kManaged);
}
GWSIM_EXPORT cudaError_t cudaMallocHost(void** pointer, size_t size_bytes) {
  GWSIM_CALL(cudaMallocHost);
  return allocate(call, pointer, size_bytes, MemoryKind::kPinned);
}
GWSIM_EXPORT cudaError_t cudaHostAlloc(void** pointer, size_t size_bytes, unsigned) {
  GWSIM_CALL(cudaHostAlloc);
  return allocate(call, pointer, size_bytes, MemoryKind::kPinned);
}
GWSIM_EXPORT cudaError_t cudaMallocPitch(void** pointer, size_t* pitch_bytes, size_t width_bytes,
                                         size_t height) {
  GWSIM_CALL(cudaMallocPitch);
  if (!pitch_bytes) return call.done(cudaErrorInvalidValue);
  *pitch_bytes = pitched(width_bytes);
  return allocate(call, pointer, *pitch_bytes * height, MemoryKind::kDevice);
}
GWSIM_EXPORT cudaError_t cudaMalloc3D(cudaPitchedPtr* pitched_pointer, cudaExtent extent) {
  GWSIM_CALL(cudaMalloc3D);
  if (!pitched_pointer) return call.done(cudaErrorInvalidValue);
  pitched_pointer->pitch = pitched(extent.width);
  pitched_pointer->xsize = extent.width;
  pitched_pointer->ysize = extent.height;
  const size_t size_bytes = pitched_pointer->pitch * extent.height * extent.depth;
  return allocate(call, &pitched_pointer->ptr, size_bytes, MemoryKind::kDevice);
}

GWSIM_EXPORT cudaError_t cudaFree(void* pointer) {
  GWSIM_CALL(cudaFree);
  if (!pointer) return call.done();
  hold_for_free(call);
  const bool released = free_from_any_pool(pointer) || Memory::instance().release(pointer, false);
  return call.done(released ? cudaSuccess : cudaErrorInvalidValue);
}
GWSIM_EXPORT cudaError_t cudaFreeHost(void* pointer) {
  GWSIM_CALL(cudaFreeHost);
  if (!pointer) return call.done();
  return call.done(release(call, pointer, true));
}

GWSIM_EXPORT cudaError_t cudaHostRegister(void* pointer, size_t size_bytes, unsigned) {
  GWSIM_CALL(cudaHostRegister);
  return call.done(register_host(call, pointer, size_bytes));
}
GWSIM_EXPORT cudaError_t cudaHostUnregister(void* pointer) {
  GWSIM_CALL(cudaHostUnregister);
  return call.done(unregister_host(pointer));
}
GWSIM_EXPORT cudaError_t cudaHostGetDevicePointer(void** device_pointer, void* host_pointer, unsigned) {
  GWSIM_SILENT_CALL(cudaHostGetDevicePointer);
  return call.done(device_pointer_of(device_pointer, host_pointer));
}
GWSIM_EXPORT cudaError_t cudaHostGetFlags(unsigned* flags, void* pointer) {
  GWSIM_SILENT_CALL(cudaHostGetFlags);
  if (!flags || !Memory::instance().find(pointer)) return call.done(cudaErrorInvalidValue);
  *flags = cudaHostAllocMapped;
  return call.done();
}

GWSIM_EXPORT cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  GWSIM_CALL(cudaMemGetInfo);
  return call.done(memory_info(free_bytes, total_bytes));
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
