// SPDX-License-Identifier: Apache-2.0
#include "libinject/unwind/native_stack.h"

#include <dlfcn.h>

#include <atomic>

#include "libinject/base/compiler.h"
#include "libinject/base/errno_guard.h"

namespace gpuwatch::unwind {

namespace {

// <unwind.h>, as the C++ ABI has it.
struct Context;
using Step = int (*)(Context* frame, void* argument);
using Backtrace = int (*)(Step step, void* argument);
using InstructionPointer = uintptr_t (*)(Context* frame);

constexpr int kGoOn = 0, kEndOfStack = 5;

constinit std::atomic<Backtrace> g_backtrace{nullptr};
constinit InstructionPointer g_instruction_pointer = nullptr;  // set before g_backtrace

int add_frame(Context* frame, void* argument) noexcept {
  auto& stack = *static_cast<NativeStack*>(argument);
  const uintptr_t address = g_instruction_pointer(frame);
  if (!address || stack.count == NativeStack::kMaxFrames) return kEndOfStack;
  stack.addresses[stack.count++] = address;
  stack.hash = (stack.hash ^ address) * 0x9e3779b97f4a7c15u ^ (stack.hash >> 29);
  return kGoOn;
}

void* find(const char* name) noexcept {
  if (void* found = dlsym(RTLD_DEFAULT, name)) return found;
  void* const library = dlopen("libgcc_s.so.1", RTLD_LAZY | RTLD_NOLOAD);  // there for a plugin's sake alone
  return library ? dlsym(library, name) : nullptr;
}

}  // namespace

GW_COLD bool find_unwinder() noexcept {
  if (!dlopen || !dlsym) return false;  // weak: see base/glibc_floor.h
  const base::ErrnoGuard keep_errno;
  g_instruction_pointer = reinterpret_cast<InstructionPointer>(find("_Unwind_GetIP"));
  void* const backtrace = g_instruction_pointer ? find("_Unwind_Backtrace") : nullptr;
  if (!backtrace && dlerror) dlerror();  // not for the job's next dlerror()
  g_backtrace.store(reinterpret_cast<Backtrace>(backtrace), std::memory_order_release);
  return backtrace != nullptr;
}

GW_COLD bool capture(NativeStack& to) noexcept {
  const Backtrace backtrace = g_backtrace.load(std::memory_order_acquire);
  if (!backtrace) return false;
  to.count = 0;
  to.hash = 0;
  backtrace(add_frame, &to);
  return to.count > 0;
}

GW_COLD void describe(const NativeStack& stack, NativeText& to) noexcept {
  for (int i = 0; i < stack.count; ++i) {
    if (i > 0) to.add('\n');
    to.add("0x");
    const uint64_t address = stack.addresses[i];
    int shift = 60;
    while (shift > 0 && !(address >> shift)) shift -= 4;
    for (; shift >= 0; shift -= 4) to.add("0123456789abcdef"[address >> shift & 15]);
  }
}

}  // namespace gpuwatch::unwind
