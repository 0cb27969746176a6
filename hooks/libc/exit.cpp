// SPDX-License-Identifier: Apache-2.0
// _exit: the end of every forked worker (Python's multiprocessing leaves by os._exit, past all exit
// handlers). Async-signal-safe, like the real one: PyTorch's SIGTERM handler calls it.
#include "hooks/libc/exit.h"

#include "hooks/libc/real.h"
#include "hooks/libc/timed.h"
#include "libinject/base/compiler.h"
#include "libinject/base/syscall.h"
#include "libinject/record/recorder.h"

namespace gpuwatch::hooks::libc {
namespace {

constinit BeforeQuickExit g_before_quick_exit = nullptr;  // written in the constructor only

// Not recorded: the vforked child whose exec failed, which shares its parent's memory but not its pid; and a
// signal handler that interrupted its own thread in a table write (the thread is quiet then), whose lock it
// would wait for.
bool is_end_of_this_process() noexcept {
  return record::is_recording() && !record::is_quiet() && record::is_this_process();
}

[[noreturn]] void quick_exit(Function function, int code) noexcept {
  if (is_end_of_this_process()) {
    if (g_before_quick_exit) g_before_quick_exit();
    record::end_process(trace::EndReason::QuickExit, code);
  }
  if (const auto real_exit = real<void (*)(int)>(function)) real_exit(code);
  for (;;) base::raw_syscall(SYS_exit_group, code);
}

}  // namespace

void set_before_quick_exit(BeforeQuickExit function) noexcept {
  g_before_quick_exit = function;
}

}  // namespace gpuwatch::hooks::libc

using gpuwatch::hooks::libc::Function;

extern "C" [[noreturn]] GW_EXPORT void gw_libc__exit(int code) __asm__("_exit");
extern "C" [[noreturn]] GW_EXPORT void gw_libc__exit(int code) {
  gpuwatch::hooks::libc::quick_exit(Function::_exit, code);
}

extern "C" [[noreturn]] GW_EXPORT void gw_libc__Exit(int code) __asm__("_Exit");
extern "C" [[noreturn]] GW_EXPORT void gw_libc__Exit(int code) {
  gpuwatch::hooks::libc::quick_exit(Function::_Exit, code);
}
