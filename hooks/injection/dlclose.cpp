// SPDX-License-Identifier: Apache-2.0
// dlclose, so that what is known of a library ends with it: another one may be loaded at its address. (dlopen
// and dlsym look at who calls them and cannot be hooked; dlclose does not.)
#include <dlfcn.h>

#include <atomic>

#include "libinject/base/compiler.h"
#include "libinject/runtime/next_definition.h"
#include "libinject/runtime/real_function.h"

extern "C" GW_EXPORT int gw_injection_dlclose(void* handle) __asm__("dlclose");

namespace {

using Dlclose = int (*)(void*);

constinit std::atomic<Dlclose> g_next{nullptr};

GW_COLD Dlclose find_next() noexcept {
  constexpr gpuwatch::runtime::WantedSymbol kWanted{"dlclose", gpuwatch::runtime::gnu_hash("dlclose")};
  void* found = nullptr;
  gpuwatch::runtime::find_next_definitions(&kWanted, &found, 1);
  // Where this library was opened instead of preloaded, libc is not behind it, and only its own calls come
  // here.
  if (!found && dlsym) found = dlsym(RTLD_DEFAULT, "dlclose");
  if (found == reinterpret_cast<void*>(&gw_injection_dlclose)) found = nullptr;
  g_next.store(reinterpret_cast<Dlclose>(found), std::memory_order_relaxed);
  return reinterpret_cast<Dlclose>(found);
}

}  // namespace

// Not noexcept: the libraries' destructors run in it.
extern "C" GW_EXPORT int gw_injection_dlclose(void* handle) {
  Dlclose next = g_next.load(std::memory_order_relaxed);
  if (GW_UNLIKELY(!next)) next = find_next();
  if (!next) return -1;  // a program without libdl has opened nothing
  const gpuwatch::runtime::Unloading unloading;
  return next(handle);
}
