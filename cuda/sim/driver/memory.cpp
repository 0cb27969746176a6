// SPDX-License-Identifier: Apache-2.0
// Allocation, copies and fills, with the costs that the runtime's have.
#include "core/memory.h"

#include "core/copy.h"
#include "driver.h"

using namespace gpuwatch::sim;

namespace {

CUresult allocate(DriverCall& call, void** pointer, size_t bytes, MemoryKind kind, Ns cost_ns) {
  if (!pointer || bytes == 0) return call.done(CUDA_ERROR_INVALID_VALUE);
  *pointer = Memory::instance().allocate(bytes, kind, current_device());
  if (!*pointer) return call.done(CUDA_ERROR_OUT_OF_MEMORY);
  sleep_until(call.begin_ns() + cost_ns, config().spin_ns);
  return call.done();
}

CUresult allocate(DriverCall& call, CUdeviceptr* address, size_t bytes, MemoryKind kind, Ns cost_ns) {
  return allocate(call, reinterpret_cast<void**>(address), bytes, kind, cost_ns);
}

CUresult release(DriverCall& call, void* pointer, bool host_kinds) {
  const Ns until = wait_for_device();
  if (until > call.begin_ns()) call.waited(until);
  sleep_until(now_ns() + config().free_cost_ns, config().spin_ns);
  const bool released = Memory::instance().release(pointer, host_kinds);
  return call.done(released ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult run_copy(DriverCall& call, void* dst, const void* src, size_t bytes, CUstream handle, bool async) {
  Stream* stream = resolve(handle);
  if (!stream) return call.done(CUDA_ERROR_INVALID_HANDLE);
  if (bytes == 0) return call.done();
  if (!dst || !src) return call.done(CUDA_ERROR_INVALID_VALUE);
  call.waited(copy(dst, src, {bytes}, *stream, async, call.correlation()));
  return call.done();
}

CUresult run_fill(DriverCall& call, CUdeviceptr dst, unsigned value, size_t bytes, CUstream handle,
                  bool async) {
  Stream* stream = resolve(handle);
  if (!stream) return call.done(CUDA_ERROR_INVALID_HANDLE);
  if (bytes == 0) return call.done();
  if (!Memory::instance().find(at(dst))) return call.done(CUDA_ERROR_INVALID_VALUE);
  call.waited(fill(at(dst), static_cast<int>(value), {bytes}, *stream, async, call.correlation()));
  return call.done();
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
  return allocate(call, address, bytes, MemoryKind::kDevice, config().malloc_cost_ns);
}
GWSIM_EXPORT CUresult cuMemAllocManaged(CUdeviceptr* address, size_t bytes, unsigned) {
  GWSIM_CALL(cuMemAllocManaged);
  return allocate(call, address, bytes, MemoryKind::kManaged, config().malloc_cost_ns);
}
GWSIM_EXPORT CUresult cuMemAllocHost_v2(void** pointer, size_t bytes) {
  GWSIM_CALL(cuMemAllocHost_v2);
  return allocate(call, pointer, bytes, MemoryKind::kPinned, config().host_alloc_cost_ns);
}
GWSIM_EXPORT CUresult cuMemHostAlloc(void** pointer, size_t bytes, unsigned) {
  GWSIM_CALL(cuMemHostAlloc);
  return allocate(call, pointer, bytes, MemoryKind::kPinned, config().host_alloc_cost_ns);
}
GWSIM_EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
  GWSIM_CALL(cuMemFree_v2);
  return release(call, at(address), false);
}
GWSIM_EXPORT CUresult cuMemFreeHost(void* pointer) {
  GWSIM_CALL(cuMemFreeHost);
  return release(call, pointer, true);
}
GWSIM_EXPORT CUresult cuMemHostRegister_v2(void* pointer, size_t bytes, unsigned) {
  GWSIM_CALL(cuMemHostRegister_v2);
  if (!pointer || !bytes) return call.done(CUDA_ERROR_INVALID_VALUE);
  if (!Memory::instance().register_host(pointer, bytes))
    return call.done(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  sleep_until(call.begin_ns() + config().host_alloc_cost_ns, config().spin_ns);
  return call.done();
}
GWSIM_EXPORT CUresult cuMemHostUnregister(void* pointer) {
  GWSIM_CALL(cuMemHostUnregister);
  const bool known = Memory::instance().unregister_host(pointer);
  return call.done(known ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}
GWSIM_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* address, void* pointer, unsigned) {
  GWSIM_SILENT_CALL(cuMemHostGetDevicePointer_v2);
  if (!address || !Memory::instance().find(pointer)) return call.done(CUDA_ERROR_INVALID_VALUE);
  *address = reinterpret_cast<CUdeviceptr>(pointer);
  return call.done();
}
GWSIM_EXPORT CUresult cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  GWSIM_CALL(cuMemGetInfo_v2);
  *total_bytes = config().memory_bytes;
  *free_bytes = config().memory_bytes - Memory::instance().used_bytes(current_device());
  return call.done();
}

GWSIM_EXPORT CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
  GWSIM_CALL(cuMemcpy);
  return run_copy(call, at(dst), at(src), bytes, nullptr, false);
}
GWSIM_EXPORT CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  GWSIM_CALL(cuMemcpyAsync);
  return run_copy(call, at(dst), at(src), bytes, stream, true);
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
GWSIM_EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
  GWSIM_CALL(cuMemcpyDtoD_v2);
  return run_copy(call, at(dst), at(src), bytes, nullptr, false);
}
GWSIM_EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  GWSIM_CALL(cuMemcpyDtoDAsync_v2);
  return run_copy(call, at(dst), at(src), bytes, stream, true);
}

GWSIM_EXPORT CUresult cuMemsetD8_v2(CUdeviceptr dst, unsigned char value, size_t count) {
  GWSIM_CALL(cuMemsetD8_v2);
  return run_fill(call, dst, value, count, nullptr, false);
}
GWSIM_EXPORT CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t count, CUstream stream) {
  GWSIM_CALL(cuMemsetD8Async);
  return run_fill(call, dst, value, count, stream, true);
}
// Of a wider value only the time counts: its lowest byte is what fills the memory.
GWSIM_EXPORT CUresult cuMemsetD32_v2(CUdeviceptr dst, unsigned value, size_t count) {
  GWSIM_CALL(cuMemsetD32_v2);
  return run_fill(call, dst, value & 0xff, count * sizeof value, nullptr, false);
}
GWSIM_EXPORT CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned value, size_t count, CUstream stream) {
  GWSIM_CALL(cuMemsetD32Async);
  return run_fill(call, dst, value & 0xff, count * sizeof value, stream, true);
}
