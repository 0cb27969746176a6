// SPDX-License-Identifier: Apache-2.0
#include "context.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>

#include "config.h"

namespace gpuwatch::sim {

namespace {

thread_local uint32_t t_device = 0;

}  // namespace

uint32_t current_device() {
  return t_device;
}

bool set_current_device(int device) {
  if (device < 0 || device >= config().devices) return false;
  t_device = static_cast<uint32_t>(device);
  return true;
}

Ns wait_for_device() {
  Ns until = 0;
  for (const MarkerRef& marker : Timeline::instance().record_all(current_device())) {
    until = std::max(until, Timeline::instance().wait_host(marker));
  }
  return until;
}

Stream* stream_of(const void* handle) {
  constexpr uintptr_t kDefault = 0, kLegacy = 1, kPerThread = 2;  // cudaStreamLegacy, CU_STREAM_LEGACY, ...
  Timeline& timeline = Timeline::instance();
  switch (reinterpret_cast<uintptr_t>(handle)) {
    case kDefault:
      if (!PerThreadDefault::active()) return timeline.legacy_stream(current_device());
      [[fallthrough]];
    case kPerThread:
      return timeline.per_thread_stream(current_device());
    case kLegacy:
      return timeline.legacy_stream(current_device());
  }
  auto* stream = static_cast<Stream*>(const_cast<void*>(handle));
  return timeline.is_stream(stream) ? stream : nullptr;
}

void report_sync(SyncKind kind, const Stream* stream, uint32_t event, const ApiCall& call, Ns end_ns) {
  Observer* observer = current_observer();
  if (!observer) return;
  observer->on_sync({kind, stream ? stream->device : current_device(), stream ? stream->id : 0, event,
                     call.correlation(), call.begin_ns(), end_ns});
}

void ensure_initialized() {
  // Not call_once: an injected library may call CUDA while it is initialised, on this thread.
  static std::atomic<bool> started{false};
  if (started.load(std::memory_order_acquire) || started.exchange(true)) return;
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (const auto inject = driver ? reinterpret_cast<void (*)()>(dlsym(driver, "gwsim_inject")) : nullptr) {
    inject();
  }
}

}  // namespace gpuwatch::sim
