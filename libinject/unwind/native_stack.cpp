// SPDX-License-Identifier: Apache-2.0
#include "libinject/unwind/native_stack.h"

#include <dlfcn.h>

#include <atomic>

#include "libinject/base/compiler.h"
#include "libinject/base/errno_guard.h"

namespace gpuwatch::unwind {

namespace {

using Backtrace = int (*)(void** addresses, int count);
constinit std::atomic<Backtrace> g_backtrace{nullptr};

}  // namespace

GW_COLD bool load_unwinder() noexcept {
  if (!dlopen || !dlsym) return false;  // weak: see base/glibc_floor.h
  const base::ErrnoGuard keep_errno;
  void* const library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
  void* const found = library ? dlsym(library, "unw_backtrace") : nullptr;
  if (!found && dlerror) dlerror();  // not for the job's next dlerror()
  g_backtrace.store(reinterpret_cast<Backtrace>(found), std::memory_order_release);
  return found != nullptr;
}

GW_COLD bool capture(NativeStack& to) noexcept {
  const Backtrace backtrace = g_backtrace.load(std::memory_order_acquire);
  if (!backtrace) return false;
  to.count = backtrace(to.addresses, NativeStack::kMaxFrames);
  to.hash = 0;
  for (int i = 0; i < to.count; ++i)
    to.hash =
        (to.hash ^ reinterpret_cast<uintptr_t>(to.addresses[i])) * 0x9e3779b97f4a7c15u ^ (to.hash >> 29);
  return to.count > 0;
}

GW_COLD void describe(const NativeStack& stack, NativeText& to) noexcept {
  for (int i = 0; i < stack.count; ++i) {
    if (i > 0) to.add('\n');
    to.add("0x");
    const auto address = reinterpret_cast<uintptr_t>(stack.addresses[i]);
    int shift = 60;
    while (shift > 0 && !(address >> shift)) shift -= 4;
    for (; shift >= 0; shift -= 4) to.add("0123456789abcdef"[address >> shift & 15]);
  }
}

}  // namespace gpuwatch::unwind
