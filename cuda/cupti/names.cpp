// SPDX-License-Identifier: Apache-2.0
#include "cuda/cupti/names.h"

#include <cuda.h>
#include <dlfcn.h>

#include <atomic>
#include <initializer_list>

#include "cuda/cupti/id_table.h"
#include "libinject/base/futex_lock.h"
#include "libinject/base/syscall.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/next_definition.h"

namespace gpuwatch::cuda::cupti {
namespace {

// In .bss: pages that are never touched cost nothing.
constinit IdTable<4096> g_streams;
constinit base::FutexLock g_lock;
constinit uint16_t g_stream_count = 0;
constinit std::atomic<uint64_t> g_devices_seen{0};  // bit n: device n occurred in a record
constinit uint64_t g_devices_described = 0;

// Context and stream of what is beyond the bound: one stream of each device.
constexpr uint32_t kOther = 0xffffffff;

uint64_t stream_key(uint32_t context, uint32_t stream) noexcept {
  return mix(uint64_t{context} << 32 | stream);
}

// The driver's own functions; the program may have a runtime linked in statically, but the driver
// is always there.
struct Driver {
  decltype(&::cuDeviceGet) get;
  decltype(&::cuDeviceGetName) name;
  decltype(&::cuDeviceGetAttribute) attribute;
  decltype(&::cuDeviceTotalMem) total_memory;
  decltype(&::cuDriverGetVersion) version;
};

bool find_driver(Driver* driver) noexcept {
  void* library = dlopen ? dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) : nullptr;
  if (!library) return false;
  const auto find = [library](auto* to, const char* name) {
    *to = reinterpret_cast<std::remove_reference_t<decltype(*to)>>(dlsym(library, name));
    return *to != nullptr;
  };
  return find(&driver->get, "cuDeviceGet") && find(&driver->name, "cuDeviceGetName") &&
         find(&driver->attribute, "cuDeviceGetAttribute") &&
         find(&driver->total_memory, "cuDeviceTotalMem_v2") && find(&driver->version, "cuDriverGetVersion");
}

// Behind this library in load order, or, where the driver opened it, before it.
void* find_runtime_version() noexcept {
  constexpr runtime::WantedSymbol kWanted{"cudaRuntimeGetVersion",
                                          runtime::gnu_hash("cudaRuntimeGetVersion")};
  void* found = nullptr;
  runtime::find_next_definitions(&kWanted, &found, 1);
  for (const char* soname : {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"}) {
    void* library = found || !dlopen || !dlsym ? nullptr : dlopen(soname, RTLD_LAZY | RTLD_NOLOAD);
    if (library) found = dlsym(library, kWanted.name);
    if (library) dlclose(library);
  }
  return found;
}

// 0 where the runtime is linked in statically: then it has no symbol to ask.
int runtime_version() noexcept {
  void* function = find_runtime_version();
  int version = 0;
  if (function) reinterpret_cast<int (*)(int*)>(function)(&version);
  return version;
}

void describe(const Driver& driver, uint32_t ordinal) noexcept {
  CUdevice device = 0;
  if (driver.get(&device, static_cast<int>(ordinal)) != CUDA_SUCCESS) return;
  char name[256] = "";
  size_t memory_bytes = 0;
  trace::DeviceInfoFields fields;
  fields.process = record::process_ordinal();
  fields.device = ordinal;
  if (driver.name(name, sizeof name, device) == CUDA_SUCCESS) fields.name = record::intern(name);
  driver.attribute(&fields.major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  driver.attribute(&fields.minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  driver.attribute(&fields.multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  if (driver.total_memory(&memory_bytes, device) == CUDA_SUCCESS) fields.memory_bytes = memory_bytes;
  driver.version(&fields.driver_version);
  fields.runtime_version = runtime_version();
  record::put(fields);
}

}  // namespace

uint16_t stream_index(uint32_t device, uint32_t context, uint32_t stream) noexcept {
  uint64_t key = stream_key(context, stream);
  uint32_t known = g_streams.find(key);
  if (known != g_streams.kNotFound) return static_cast<uint16_t>(known);

  const base::FutexGuard guard(g_lock, static_cast<uint32_t>(base::sys_getpid()));
  known = g_streams.find(key);
  if (known != g_streams.kNotFound) return static_cast<uint16_t>(known);
  if (g_streams.is_full()) {
    record::lose(GW_INCOMPLETE "GPU operations are known by their device alone: more than 3072 streams", 1);
    context = stream = kOther;
    key = stream_key(kOther, device);
    known = g_streams.find(key);  // there is room: one for each device
    if (known != g_streams.kNotFound) return static_cast<uint16_t>(known);
  }
  trace::StreamInfoFields fields;
  fields.index = ++g_stream_count;
  fields.process = record::process_ordinal();
  fields.device = device;
  fields.context = context;
  fields.stream = stream;
  record::put(fields);
  g_streams.add(key, fields.index);
  if (device < 64) g_devices_seen.fetch_or(1ull << device, std::memory_order_relaxed);
  return fields.index;
}

void describe_new_devices() noexcept {
  const uint64_t fresh = g_devices_seen.load(std::memory_order_relaxed) & ~g_devices_described;
  if (!fresh) return;
  g_devices_described |= fresh;
  Driver driver;
  if (!find_driver(&driver)) return;
  for (uint32_t device = 0; device < 64; ++device) {
    if (fresh >> device & 1) describe(driver, device);
  }
}

}  // namespace gpuwatch::cuda::cupti
