// SPDX-License-Identifier: Apache-2.0
// The open family: the mode is passed only where the flags ask for it. The Python source notices imports
// here (open.h).
#include "hooks/libc/open.h"

#include <fcntl.h>

#include <atomic>
#include <cstdarg>

#include "hooks/libc/timed.h"
#include "libinject/base/compiler.h"

namespace gpuwatch::hooks::libc {
namespace {
constinit std::atomic<OpenListener> g_open_listener{nullptr};
}

void set_open_listener(OpenListener listener) noexcept {
  g_open_listener.store(listener, std::memory_order_relaxed);
}

}  // namespace gpuwatch::hooks::libc

namespace {

using gpuwatch::hooks::Op;
using namespace gpuwatch::hooks::libc;

bool needs_mode(int flags) noexcept {
  return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
}

template <class Real, class... Arguments>
int open_with(Function function, Op op, const void* caller, const char* path, Arguments... arguments) {
  const auto found = real<Real>(function);
  int fd;
  if (GW_UNLIKELY(!found)) {
    fd = find_and_call<Real>(function, Outcome::opened, arguments...);
  } else if (GW_LIKELY(!is_watching())) {
    fd = found(arguments...);
  } else {
    fd = timed(Call{op, Outcome::opened, Input::kOpen, 0, caller}, found, arguments...);
  }
  if (fd >= 0) {
    if (const OpenListener listener = g_open_listener.load(std::memory_order_relaxed)) listener(path);
  }
  return fd;
}

}  // namespace

#define GW_OPEN(name)                                                                                   \
  extern "C" GW_EXPORT int gw_libc_##name(const char* path, int flags, ...) __asm__(#name);             \
  extern "C" GW_EXPORT int gw_libc_##name(const char* path, int flags, ...) {                           \
    mode_t mode = 0;                                                                                    \
    if (needs_mode(flags)) {                                                                            \
      va_list rest;                                                                                     \
      va_start(rest, flags);                                                                            \
      mode = va_arg(rest, mode_t);                                                                      \
      va_end(rest);                                                                                     \
    }                                                                                                   \
    return open_with<decltype(&gw_libc_##name)>(Function::name, Op::name, GW_CALLER, path, path, flags, \
                                                mode);                                                  \
  }
GW_OPEN(open)
GW_OPEN(open64)
#undef GW_OPEN

#define GW_OPENAT(name)                                                                                     \
  extern "C" GW_EXPORT int gw_libc_##name(int at, const char* path, int flags, ...) __asm__(#name);         \
  extern "C" GW_EXPORT int gw_libc_##name(int at, const char* path, int flags, ...) {                       \
    mode_t mode = 0;                                                                                        \
    if (needs_mode(flags)) {                                                                                \
      va_list rest;                                                                                         \
      va_start(rest, flags);                                                                                \
      mode = va_arg(rest, mode_t);                                                                          \
      va_end(rest);                                                                                         \
    }                                                                                                       \
    return open_with<decltype(&gw_libc_##name)>(Function::name, Op::name, GW_CALLER, path, at, path, flags, \
                                                mode);                                                      \
  }
GW_OPENAT(openat)
GW_OPENAT(openat64)
#undef GW_OPENAT

// Fortified callers that pass no mode.
#define GW_OPEN_2(name)                                                                                  \
  extern "C" GW_EXPORT int gw_libc_##name(const char* path, int flags) __asm__(#name);                   \
  extern "C" GW_EXPORT int gw_libc_##name(const char* path, int flags) {                                 \
    return open_with<decltype(&gw_libc_##name)>(Function::name, Op::name, GW_CALLER, path, path, flags); \
  }
GW_OPEN_2(__open_2)
GW_OPEN_2(__open64_2)
#undef GW_OPEN_2

#define GW_OPENAT_2(name)                                                                                    \
  extern "C" GW_EXPORT int gw_libc_##name(int at, const char* path, int flags) __asm__(#name);               \
  extern "C" GW_EXPORT int gw_libc_##name(int at, const char* path, int flags) {                             \
    return open_with<decltype(&gw_libc_##name)>(Function::name, Op::name, GW_CALLER, path, at, path, flags); \
  }
GW_OPENAT_2(__openat_2)
GW_OPENAT_2(__openat64_2)
#undef GW_OPENAT_2
