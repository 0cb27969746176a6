// SPDX-License-Identifier: Apache-2.0
#include "context.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "config.h"

namespace gpuwatch::sim {

namespace {

thread_local uint32_t t_device = 0;

void inject() {
  const char* path = std::getenv("CUDA_INJECTION64_PATH");
  if (!path || !*path) return;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  using Initialize = int (*)();
  const auto initialize =
      library ? reinterpret_cast<Initialize>(dlsym(library, "InitializeInjection")) : nullptr;
  if (initialize) {
    initialize();
  } else {
    std::fprintf(stderr, "[gpuwatch simulated device] CUDA_INJECTION64_PATH: cannot use %s\n", path);
  }
}

}  // namespace

uint32_t current_device() {
  return t_device;
}

bool set_current_device(int device) {
  if (device < 0 || device >= config().devices) return false;
  t_device = static_cast<uint32_t>(device);
  return true;
}

void ensure_initialized() {
  // Not call_once: the injected library may call CUDA from InitializeInjection, on this thread.
  static std::atomic<bool> started{false};
  if (started.load(std::memory_order_acquire) || started.exchange(true)) return;
  inject();
}

}  // namespace gpuwatch::sim
