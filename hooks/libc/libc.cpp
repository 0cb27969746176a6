// SPDX-License-Identifier: Apache-2.0
// The interposers of libc.def. They are defined under our own names and exported under libc's by an asm
// label: the nonnull, nothrow and fortify attributes of the headers' declarations are promises of callers.
#include "hooks/libc/libc.h"

#include <linux/magic.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hooks/libc/sliced_wait.h"
#include "hooks/libc/timed.h"
#include "hooks/stacks/stall_stacks.h"
#include "libinject/base/clock.h"
#include "libinject/base/compiler.h"
#include "libinject/base/syscall.h"
#include "libinject/context/mounts.h"
#include "libinject/runtime/config.h"
#include "libinject/runtime/own_library.h"
#include "libinject/trace/layout.h"

namespace gpuwatch::hooks::libc {

constinit std::atomic<uint64_t> g_threshold_ticks{UINT64_MAX};
constinit bool g_is_on = false;
GW_TLS IoTotals t_io_totals;

namespace {

uint32_t object(const volatile void* pointer) noexcept {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(pointer));
}
uint32_t object(pthread_t thread) noexcept {
  return static_cast<uint32_t>(thread);
}

// Tells a pipe or socket (waiting for a process) from a local or a network file. 0.3 us, paid only by calls
// that blocked for more than a hundred times that.
uint32_t filesystem_of(int64_t fd) noexcept {
  struct statfs where;
  const long result = base::raw_syscall(SYS_fstatfs, fd, base::address(&where));
  return result == 0 ? static_cast<uint32_t>(where.f_type) : 0;
}

bool has_failed(Outcome outcome, int64_t result) noexcept {
  switch (outcome) {
    case Outcome::code:
      return result != 0;
    case Outcome::rest:
      return false;
    default:
      return result < 0;
  }
}

}  // namespace

namespace {

void leave_wait(const record::Scope& scope, const Call& call, int64_t result) noexcept {
  const uint8_t flags = has_failed(call.outcome, result) ? trace::kFailed : 0;
  const bool is_open = call.outcome == Outcome::opened;
  if (!is_open && call.outcome != Outcome::bytes) {
    record::leave(scope, flags, call.subject, 0);
    return;
  }
  const int64_t fd = is_open ? result : static_cast<int32_t>(call.subject);
  const uint64_t bytes = is_open || result < 0 ? 0 : static_cast<uint64_t>(result);
  const auto caller = reinterpret_cast<uint64_t>(call.caller);
  const uint32_t filesystem = filesystem_of(fd);
  const bool is_file = filesystem != PIPEFS_MAGIC && filesystem != SOCKFS_MAGIC;
  const uint32_t mount = is_file ? context::mount_of(static_cast<int>(fd)) : 0;
  record::leave(scope, flags, static_cast<uint32_t>(fd), 0,
                trace::IoDetail(bytes, caller, mount, filesystem));
}

}  // namespace

GW_COLD void record_wait(const record::Scope& scope, const Call& call, int64_t result) noexcept {
  leave_wait(scope, call, result);
  stacks::maybe_record_stack(scope);
}

void arm() noexcept {
  find_all();
  g_is_on = runtime::config().is_on(runtime::Source::kIo);
}

void on_recording() noexcept {
  g_threshold_ticks.store(base::ticks_of_ns(kThresholdNs), std::memory_order_relaxed);
  using trace::SourceState;
  constexpr record::SourceStatus kOff = {SourceState::Off}, kOn = {SourceState::On},
                                 kNotPreloaded = {SourceState::NotPreloaded,
                                                  "not preloaded: waits and file reads are not recorded; "
                                                  "start the job with LD_PRELOAD"};
  record::put_source("io", !g_is_on ? kOff : runtime::is_preloaded() ? kOn : kNotPreloaded);
  if (g_is_on) context::put_mounts({});
}

}  // namespace gpuwatch::hooks::libc

using gpuwatch::hooks::Op;
using namespace gpuwatch::hooks::libc;

#define GW_UNPACK(...) __VA_ARGS__

#define GW_LIBC_HOOK(ret, name, params, args, outcome, subject)                                      \
  extern "C" GW_EXPORT ret gw_libc_##name params __asm__(#name);                                     \
  extern "C" GW_EXPORT ret gw_libc_##name params {                                                   \
    const auto function = real<decltype(&gw_libc_##name)>(Function::name);                           \
    if (GW_UNLIKELY(!function)) {                                                                    \
      return find_and_call<decltype(function)>(Function::name, Outcome::outcome, GW_UNPACK args);    \
    }                                                                                                \
    if (GW_LIKELY(!is_watching())) return function args;                                             \
    static_assert(carries<gpuwatch::trace::IoDetail>(Op::name));                                     \
    constexpr Input kInput = input_of(Op::name);                                                     \
    const Call call{Op::name, Outcome::outcome, kInput, static_cast<uint32_t>(subject), GW_CALLER};  \
    return timed(call, Slicing<Function::name>::in_place_of(function, call.caller), GW_UNPACK args); \
  }

#define GW_LIBC_code(...) GW_LIBC_HOOK(__VA_ARGS__)
#define GW_LIBC_minus_one(...) GW_LIBC_HOOK(__VA_ARGS__)
#define GW_LIBC_bytes(...) GW_LIBC_HOOK(__VA_ARGS__)
#define GW_LIBC_rest(...) GW_LIBC_HOOK(__VA_ARGS__)
#define GW_LIBC_opened(...)  // open.cpp
#define GW_LIBC_items(...)   // stdio.cpp
#define GW_LIBC_stream(...)  // stdio.cpp
#define GW_LIBC_ends(...)    // exit.cpp

#define GW_LIBC(ret, name, params, args, op_class, outcome, subject) \
  GW_LIBC_##outcome(ret, name, params, args, outcome, subject)
#include "hooks/libc/libc.def"
#undef GW_LIBC
