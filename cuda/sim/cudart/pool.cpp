// SPDX-License-Identifier: Apache-2.0
#include "pool.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "core/memory.h"
#include "runtime.h"

namespace gpuwatch::sim {

namespace {

struct Pools {
  std::mutex mutex;
  std::map<uint32_t, std::unique_ptr<Pool>> defaults;
  std::map<uint32_t, Pool*> current;
  std::vector<Pool*> all;
};

Pools& pools() {
  static Pools* instance = new Pools;
  return *instance;
}

Pool* add_pool(uint32_t device) {
  auto* pool = new Pool(device);
  std::lock_guard lock(pools().mutex);
  pools().all.push_back(pool);
  return pool;
}

}  // namespace

void* Pool::allocate(size_t size_bytes) {
  std::lock_guard lock(mutex_);
  void* pointer = nullptr;
  if (const auto found = idle_.find(size_bytes); found != idle_.end()) {
    pointer = found->second;
    idle_.erase(found);
  } else {
    pointer = Memory::instance().allocate(size_bytes, MemoryKind::kDevice, device_);
    if (!pointer) return nullptr;
    usage_.reserved += size_bytes;
    usage_.reserved_high = std::max(usage_.reserved_high, usage_.reserved);
  }
  live_[pointer] = size_bytes;
  usage_.used += size_bytes;
  usage_.used_high = std::max(usage_.used_high, usage_.used);
  return pointer;
}

bool Pool::free(void* pointer) {
  std::lock_guard lock(mutex_);
  const auto found = live_.find(pointer);
  if (found == live_.end()) return false;
  usage_.used -= found->second;
  idle_.emplace(found->second, pointer);
  live_.erase(found);
  return true;
}

void Pool::trim(size_t keep_bytes) {
  std::lock_guard lock(mutex_);
  while (!idle_.empty() && usage_.reserved > keep_bytes) {
    const auto last = std::prev(idle_.end());
    usage_.reserved -= last->first;
    Memory::instance().release(last->second, false);
    idle_.erase(last);
  }
}

Pool::Usage Pool::usage() {
  std::lock_guard lock(mutex_);
  return usage_;
}

void Pool::reset_high_marks() {
  std::lock_guard lock(mutex_);
  usage_.used_high = usage_.used;
  usage_.reserved_high = usage_.reserved;
}

Pool& default_pool(uint32_t device) {
  Pools& p = pools();
  std::lock_guard lock(p.mutex);
  auto& pool = p.defaults[device];
  if (!pool) {
    pool = std::make_unique<Pool>(device);
    p.all.push_back(pool.get());
  }
  return *pool;
}

Pool& current_pool(uint32_t device) {
  {
    std::lock_guard lock(pools().mutex);
    if (const auto found = pools().current.find(device); found != pools().current.end())
      return *found->second;
  }
  return default_pool(device);
}

void set_current_pool(uint32_t device, Pool& pool) {
  std::lock_guard lock(pools().mutex);
  pools().current[device] = &pool;
}

bool free_from_any_pool(void* pointer) {
  std::lock_guard lock(pools().mutex);
  return std::any_of(pools().all.begin(), pools().all.end(), [pointer](Pool* p) { return p->free(pointer); });
}

}  // namespace gpuwatch::sim

using namespace gpuwatch::sim;

namespace {
Pool* resolve_pool(cudaMemPool_t handle) {
  return reinterpret_cast<Pool*>(handle);
}
cudaMemPool_t handle_of(Pool& pool) {
  return reinterpret_cast<cudaMemPool_t>(&pool);
}

cudaError_t allocate_from(RuntimeCall& call, Pool& pool, void** pointer, size_t size_bytes,
                          cudaStream_t stream) {
  if (!pointer) return call.done(cudaErrorInvalidValue);
  if (!resolve(stream)) return call.done(cudaErrorInvalidResourceHandle);
  *pointer = size_bytes ? pool.allocate(size_bytes) : nullptr;
  return call.done(*pointer || !size_bytes ? cudaSuccess : cudaErrorMemoryAllocation);
}
}  // namespace

GWSIM_EXPORT cudaError_t cudaMallocAsync(void** pointer, size_t size_bytes, cudaStream_t stream) {
  GWSIM_CALL(cudaMallocAsync);
  return allocate_from(call, current_pool(current_device()), pointer, size_bytes, stream);
}
GWSIM_EXPORT cudaError_t cudaMallocFromPoolAsync(void** pointer, size_t size_bytes, cudaMemPool_t pool,
                                                 cudaStream_t stream) {
  GWSIM_CALL(cudaMallocFromPoolAsync);
  if (!pool) return call.done(cudaErrorInvalidValue);
  return allocate_from(call, *resolve_pool(pool), pointer, size_bytes, stream);
}
GWSIM_EXPORT cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  GWSIM_CALL(cudaFreeAsync);
  if (!resolve(stream)) return call.done(cudaErrorInvalidResourceHandle);
  if (!pointer || free_from_any_pool(pointer) || Memory::instance().release(pointer, false))
    return call.done();
  return call.done(cudaErrorInvalidValue);
}
GWSIM_EXPORT cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  GWSIM_CALL(cudaMemPoolCreate);
  if (!pool || !properties) return call.done(cudaErrorInvalidValue);
  *pool = handle_of(*add_pool(static_cast<uint32_t>(properties->location.id)));
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  GWSIM_CALL(cudaMemPoolDestroy);
  if (!pool) return call.done(cudaErrorInvalidValue);
  resolve_pool(pool)->trim(0);  // the object stays: blocks that are still in use come back to it
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep_bytes) {
  GWSIM_CALL(cudaMemPoolTrimTo);
  if (!pool) return call.done(cudaErrorInvalidValue);
  resolve_pool(pool)->trim(keep_bytes);
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  GWSIM_SILENT_CALL(cudaDeviceGetDefaultMemPool);
  *pool = handle_of(default_pool(static_cast<uint32_t>(device)));
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  GWSIM_SILENT_CALL(cudaDeviceGetMemPool);
  *pool = handle_of(current_pool(static_cast<uint32_t>(device)));
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  GWSIM_SILENT_CALL(cudaDeviceSetMemPool);
  if (!pool) return call.done(cudaErrorInvalidValue);
  set_current_pool(static_cast<uint32_t>(device), *resolve_pool(pool));
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc*, size_t) {
  GWSIM_SILENT_CALL(cudaMemPoolSetAccess);
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  GWSIM_SILENT_CALL(cudaMemPoolSetAttribute);
  if (!pool || !value) return call.done(cudaErrorInvalidValue);
  if (attribute == cudaMemPoolAttrReleaseThreshold) {
    resolve_pool(pool)->release_threshold_bytes = *static_cast<uint64_t*>(value);
  } else if (attribute == cudaMemPoolAttrUsedMemHigh || attribute == cudaMemPoolAttrReservedMemHigh) {
    resolve_pool(pool)->reset_high_marks();
  }
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  GWSIM_SILENT_CALL(cudaMemPoolGetAttribute);
  if (!pool || !value) return call.done(cudaErrorInvalidValue);
  const Pool::Usage usage = resolve_pool(pool)->usage();
  auto& wide = *static_cast<uint64_t*>(value);
  switch (attribute) {
    case cudaMemPoolAttrReleaseThreshold:
      wide = resolve_pool(pool)->release_threshold_bytes;
      break;
    case cudaMemPoolAttrReservedMemCurrent:
      wide = usage.reserved;
      break;
    case cudaMemPoolAttrReservedMemHigh:
      wide = usage.reserved_high;
      break;
    case cudaMemPoolAttrUsedMemCurrent:
      wide = usage.used;
      break;
    case cudaMemPoolAttrUsedMemHigh:
      wide = usage.used_high;
      break;
    default:
      *static_cast<int*>(value) = 1;  // the reuse policies, all on
  }
  return call.done();
}
