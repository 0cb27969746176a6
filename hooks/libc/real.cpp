// SPDX-License-Identifier: Apache-2.0
#include "hooks/libc/real.h"

#include "libinject/runtime/next_definition.h"

namespace gpuwatch::hooks::libc {

constinit std::atomic<void*> g_real[kFunctionCount]{};

namespace {

constexpr runtime::WantedSymbol kWanted[kFunctionCount] = {
#define GW_LIBC(ret, name, params, args, op_class, outcome, subject) {#name, runtime::gnu_hash(#name)},
#include "hooks/libc/libc.def"
#undef GW_LIBC
};

}  // namespace

void find_all() noexcept {
  void* found[kFunctionCount];
  for (size_t i = 0; i < kFunctionCount; ++i) found[i] = g_real[i].load(std::memory_order_relaxed);
  runtime::find_next_definitions(kWanted, found, kFunctionCount);
  for (size_t i = 0; i < kFunctionCount; ++i) g_real[i].store(found[i], std::memory_order_relaxed);
}

GW_COLD void* find_one(Function function) noexcept {
  const auto index = static_cast<size_t>(function);
  void* found = nullptr;
  runtime::find_next_definitions(&kWanted[index], &found, 1);
  if (found) g_real[index].store(found, std::memory_order_relaxed);
  return found;
}

}  // namespace gpuwatch::hooks::libc
