// SPDX-License-Identifier: Apache-2.0
// The table of libc's own functions, one for each row of libc.def. All are found together in the constructor:
// found on first use, that use may be in a forked child whose parent held the loader's lock, or in a signal
// handler. Calls that come even earlier (constructors of other preloaded libraries) find theirs on the spot.
// Thread and signal safe. Errors: a function that this glibc does not have (epoll_pwait2 before 2.35) fails
// with ENOSYS.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "libinject/base/compiler.h"

namespace gpuwatch::hooks::libc {

enum class Function : uint16_t {
#define GW_LIBC(ret, name, params, args, op_class, outcome, subject) name,
#include "hooks/libc/libc.def"
#undef GW_LIBC
  kCount
};
inline constexpr size_t kFunctionCount = static_cast<size_t>(Function::kCount);

extern constinit std::atomic<void*> g_real[kFunctionCount];

void find_all() noexcept;  // 17 000 instructions with what else the constructor does; called by it, once
void* find_one(Function function) noexcept;  // cold

// Null until find_all() or find_one() has run.
template <class Pointer>
inline Pointer real(Function function) noexcept {
  return reinterpret_cast<Pointer>(g_real[static_cast<size_t>(function)].load(std::memory_order_relaxed));
}

// What a call to a function that does not exist answers.
enum class Outcome : uint8_t { code, minus_one, bytes, rest, opened, items, stream, ends };

// A call before the constructor, or to a function of a library that was loaded after it.
template <class Pointer, class... Arguments>
[[gnu::cold, gnu::noinline]] auto find_and_call(Function function, Outcome outcome, Arguments... arguments) {
  using Result = decltype(std::declval<Pointer>()(arguments...));
  if (const auto found = reinterpret_cast<Pointer>(find_one(function))) return found(arguments...);
  if (outcome == Outcome::code) return static_cast<Result>(ENOSYS);
  errno = ENOSYS;
  return static_cast<Result>(-1);
}

}  // namespace gpuwatch::hooks::libc
