// SPDX-License-Identifier: Apache-2.0
#include "memory_calls.h"

#include "config.h"
#include "context.h"

namespace gpuwatch::sim {

MemoryError allocate(const ApiCall& call, void** pointer, size_t size_bytes, MemoryKind kind) {
  *pointer = Memory::instance().allocate(size_bytes, kind, current_device());
  if (!*pointer) return MemoryError::kOutOfMemory;
  const Ns cost_ns = kind == MemoryKind::kPinned ? config().host_alloc_cost_ns : config().malloc_cost_ns;
  sleep_until(call.begin_ns() + cost_ns, config().spin_ns);
  return MemoryError::kNone;
}

void hold_for_free(ApiCall& call) {
  const Ns until = wait_for_device();
  if (until > call.begin_ns()) call.waited(until);
  sleep_until(now_ns() + config().free_cost_ns, config().spin_ns);
}

MemoryError release(ApiCall& call, void* pointer, bool host_kinds) {
  hold_for_free(call);
  return Memory::instance().release(pointer, host_kinds) ? MemoryError::kNone : MemoryError::kInvalidValue;
}

MemoryError register_host(const ApiCall& call, void* pointer, size_t size_bytes) {
  if (!pointer || !size_bytes) return MemoryError::kInvalidValue;
  if (!Memory::instance().register_host(pointer, size_bytes)) return MemoryError::kAlreadyRegistered;
  sleep_until(call.begin_ns() + config().host_alloc_cost_ns, config().spin_ns);
  return MemoryError::kNone;
}

MemoryError unregister_host(void* pointer) {
  return Memory::instance().unregister_host(pointer) ? MemoryError::kNone : MemoryError::kNotRegistered;
}

MemoryError device_pointer_of(void** device_pointer, void* host_pointer) {
  if (!device_pointer || !Memory::instance().find(host_pointer)) return MemoryError::kInvalidValue;
  *device_pointer = host_pointer;
  return MemoryError::kNone;
}

MemoryError memory_info(size_t* free_bytes, size_t* total_bytes) {
  if (!free_bytes || !total_bytes) return MemoryError::kInvalidValue;
  *total_bytes = config().memory_bytes;
  *free_bytes = config().memory_bytes - Memory::instance().used_bytes(current_device());
  return MemoryError::kNone;
}

MemoryError run_copy(ApiCall& call, void* dst, const void* src, const CopyShape& shape, Stream* stream,
                     bool async, bool fits) {
  if (!stream) return MemoryError::kInvalidHandle;
  if (shape.bytes() == 0) return MemoryError::kNone;
  if (!dst || !src || !fits) return MemoryError::kInvalidValue;
  call.waited(copy(dst, src, shape, *stream, async, call.correlation()));
  return MemoryError::kNone;
}

MemoryError run_fill(ApiCall& call, void* dst, int value, const CopyShape& shape, Stream* stream,
                     bool async) {
  if (!stream) return MemoryError::kInvalidHandle;
  if (shape.bytes() == 0) return MemoryError::kNone;
  if (!Memory::instance().find(dst)) return MemoryError::kInvalidValue;
  call.waited(fill(dst, value, shape, *stream, async, call.correlation()));
  return MemoryError::kNone;
}

}  // namespace gpuwatch::sim
