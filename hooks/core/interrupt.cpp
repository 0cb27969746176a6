// SPDX-License-Identifier: Apache-2.0
#include "hooks/core/interrupt.h"

#include <signal.h>

#include <atomic>

#include "libinject/base/syscall.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/config.h"

namespace gpuwatch::hooks {
namespace {

constinit std::atomic<bool> g_is_interrupted{false};

}  // namespace

void interrupt_if_asked() noexcept {
  const char* file = runtime::config().interrupt_file;
  if (!file || base::raw_syscall(SYS_access, base::address(file), 0 /* exists */) != 0) return;
  if (g_is_interrupted.exchange(true, std::memory_order_relaxed)) return;
  // Python ends by the signal; without this the analyzer would take it for killed.
  record::put_fact("interrupted", "yes");
  base::raw_syscall(SYS_kill, base::sys_getpid(), SIGINT);
}

}  // namespace gpuwatch::hooks
