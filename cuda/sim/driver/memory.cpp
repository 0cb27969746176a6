// SPDX-License-Identifier: Apache-2.0
// Allocation, copies and fills.
#include "core/memory_calls.h"

#include "driver.h"

using namespace gpuwatch::sim;

namespace {

CUresult allocate(DriverCall& call, void** pointer, size_t bytes, MemoryKind kind) {
  if (!pointer || bytes == 0) return call.done(CUDA_ERROR_INVALID_VALUE);
  return call.done(gpuwatch::sim::allocate(call, pointer, bytes, kind));
}

CUresult allocate(DriverCall& call, CUdeviceptr* address, size_t bytes, MemoryKind kind) {
  return allocate(call, reinterpret_cast<void**>(address), bytes, kind);
}

CUresult copy(DriverCall& call, void* dst, const void* src, size_t bytes, CUstream stream, bool async) {
  return call.done(run_copy(call, dst, src, {bytes}, resolve(stream), async));
}

CUresult fill(DriverCall& call, CUdeviceptr dst, unsigned value, size_t bytes, CUstream stream, bool async) {
  return call.done(run_fill(call, at(dst), static_cast<int>(value), {bytes}, resolve(stream), async));
}

template <class Value>
CUresult put(void* data, Value value) {
  *static_cast<Value*>(data) = value;
  return CUDA_SUCCESS;
}

CUresult pointer_attribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  const auto block = Memory::instance().find(at(address));
  if (!data || !block) return CUDA_ERROR_INVALID_VALUE;  // as for all that the device does not know
  const bool is_host = block->kind == MemoryKind::kPinned;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return put<unsigned>(data, is_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return put(data, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return block->kind == MemoryKind::kDevice ? CUDA_ERROR_INVALID_VALUE : put(data, at(address));
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return put<unsigned>(data, block->kind == MemoryKind::kManaged);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return put(data, static_cast<int>(block->device));
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return put(data, static_cast<CUdeviceptr>(block->begin));
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return put(data, block->size_bytes);
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace

GWSIM_EXPORT CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  GWSIM_SILENT_CALL(cuPointerGetAttribute);
  return call.done(pointer_attribute(data, attribute, address));
}

GWSIM_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  GWSIM_CALL(cuMemAlloc_v2);
  return allocate(call, address, bytes, MemoryKind::kDevice);
}
GWSIM_EXPORT CUresult cuMemAllocManaged(CUdeviceptr* address, size_t bytes, unsigned) {
  GWSIM_CALL(cuMemAllocManaged);
  return allocate(call, address, bytes, MemoryKind::kManaged);
}
GWSIM_EXPORT CUresult cuMemAllocHost_v2(void** pointer, size_t bytes) {
  GWSIM_CALL(cuMemAllocHost_v2);
  return allocate(call, pointer, bytes, MemoryKind::kPinned);
}
GWSIM_EXPORT CUresult cuMemHostAlloc(void** pointer, size_t bytes, unsigned) {
  GWSIM_CALL(cuMemHostAlloc);
  return allocate(call, pointer, bytes, MemoryKind::kPinned);
}
GWSIM_EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
  GWSIM_CALL(cuMemFree_v2);
  return call.done(release(call, at(address), false));
}
GWSIM_EXPORT CUresult cuMemFreeHost(void* pointer) {
  GWSIM_CALL(cuMemFreeHost);
  return call.done(release(call, pointer, true));
}
GWSIM_EXPORT CUresult cuMemHostRegister_v2(void* pointer, size_t bytes, unsigned) {
  GWSIM_CALL(cuMemHostRegister_v2);
  return call.done(register_host(call, pointer, bytes));
}
GWSIM_EXPORT CUresult cuMemHostUnregister(void* pointer) {
  GWSIM_CALL(cuMemHostUnregister);
  return call.done(unregister_host(pointer));
}
GWSIM_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* address, void* pointer, unsigned) {
  GWSIM_SILENT_CALL(cuMemHostGetDevicePointer_v2);
  return call.done(device_pointer_of(reinterpret_cast<void**>(address), pointer));
}
GWSIM_EXPORT CUresult cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  GWSIM_CALL(cuMemGetInfo_v2);
  return call.done(memory_info(free_bytes, total_bytes));
}

GWSIM_EXPORT CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
  GWSIM_CALL(cuMemcpy);
  return copy(call, at(dst), at(src), bytes, nullptr, false);
}
GWSIM_EXPORT CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  GWSIM_CALL(cuMemcpyAsync);
  return copy(call, at(dst), at(src), bytes, stream, true);
}
GWSIM_EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void* src, size_t bytes) {
  GWSIM_CALL(cuMemcpyHtoD_v2);
  return copy(call, at(dst), src, bytes, nullptr, false);
}
GWSIM_EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void* src, size_t bytes, CUstream stream) {
  GWSIM_CALL(cuMemcpyHtoDAsync_v2);
  return copy(call, at(dst), src, bytes, stream, true);
}
GWSIM_EXPORT CUresult cuMemcpyDtoH_v2(void* dst, CUdeviceptr src, size_t bytes) {
  GWSIM_CALL(cuMemcpyDtoH_v2);
  return copy(call, dst, at(src), bytes, nullptr, false);
}
GWSIM_EXPORT CUresult cuMemcpyDtoHAsync_v2(void* dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  GWSIM_CALL(cuMemcpyDtoHAsync_v2);
  return copy(call, dst, at(src), bytes, stream, true);
}
GWSIM_EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
  GWSIM_CALL(cuMemcpyDtoD_v2);
  return copy(call, at(dst), at(src), bytes, nullptr, false);
}
GWSIM_EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  GWSIM_CALL(cuMemcpyDtoDAsync_v2);
  return copy(call, at(dst), at(src), bytes, stream, true);
}

GWSIM_EXPORT CUresult cuMemsetD8_v2(CUdeviceptr dst, unsigned char value, size_t count) {
  GWSIM_CALL(cuMemsetD8_v2);
  return fill(call, dst, value, count, nullptr, false);
}
GWSIM_EXPORT CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t count, CUstream stream) {
  GWSIM_CALL(cuMemsetD8Async);
  return fill(call, dst, value, count, stream, true);
}
// Of a wider value only the time counts: its lowest byte is what fills the memory.
GWSIM_EXPORT CUresult cuMemsetD32_v2(CUdeviceptr dst, unsigned value, size_t count) {
  GWSIM_CALL(cuMemsetD32_v2);
  return fill(call, dst, value & 0xff, count * sizeof value, nullptr, false);
}
GWSIM_EXPORT CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned value, size_t count, CUstream stream) {
  GWSIM_CALL(cuMemsetD32Async);
  return fill(call, dst, value & 0xff, count * sizeof value, stream, true);
}
