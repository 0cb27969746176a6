// SPDX-License-Identifier: Apache-2.0
#include "libinject/record/periodic_thread.h"

#include <linux/futex.h>
#include <time.h>

#include "libinject/base/clock.h"
#include "libinject/base/errno_guard.h"
#include "libinject/base/syscall.h"
#include "libinject/record/own_thread.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/fork_epoch.h"

namespace gpuwatch::record {

// Raw: a hooked wait would be taken for the job's.
void PeriodicThread::wait_while(Phase phase, uint32_t limit_ms) noexcept {
  const timespec limit{limit_ms / 1000, limit_ms % 1000 * 1000000l};
  base::raw_syscall(SYS_futex, base::address(&phase_), FUTEX_WAIT_PRIVATE, phase, base::address(&limit));
}

void PeriodicThread::set_phase(Phase phase) noexcept {
  phase_.store(phase, std::memory_order_release);
  base::raw_syscall(SYS_futex, base::address(&phase_), FUTEX_WAKE_PRIVATE, INT32_MAX);
}

void* PeriodicThread::run(void* thread) noexcept {
  PeriodicThread& self = *static_cast<PeriodicThread*>(thread);
  const Quiet quiet;
  name_own_thread();
  for (uint32_t wait_ms = self.first_ms_; self.phase_.load(std::memory_order_acquire) == kRunning;
       wait_ms = self.period_ms_) {
    self.wait_while(kRunning, wait_ms);
    if (!is_recording()) break;
    self.turn_();
  }
  if (self.last_) self.last_();
  self.set_phase(kDone);
  return nullptr;
}

bool PeriodicThread::start() noexcept {
  uint32_t none = kNone;
  if (!phase_.compare_exchange_strong(none, kStarting)) return true;
  const base::ErrnoGuard keep_errno;
  const Quiet quiet;
  epoch_.store(runtime::epoch(), std::memory_order_relaxed);
  phase_.store(kRunning, std::memory_order_release);
  if (start_own_thread(run, this)) return true;
  phase_.store(kDone, std::memory_order_release);
  return false;
}

bool PeriodicThread::finish(uint32_t limit_ms) noexcept {
  if (runtime::epoch() != epoch_.load(std::memory_order_relaxed)) return true;
  uint32_t running = kRunning;
  if (!phase_.compare_exchange_strong(running, kFinishing)) return true;
  const base::ErrnoGuard keep_errno;
  set_phase(kFinishing);
  const uint64_t until_ns = base::monotonic_ns() + limit_ms * 1'000'000ull;
  while (phase_.load(std::memory_order_acquire) == kFinishing) {
    const uint64_t now_ns = base::monotonic_ns();
    if (now_ns >= until_ns) return false;
    wait_while(kFinishing, static_cast<uint32_t>((until_ns - now_ns) / 1'000'000) + 1);
  }
  return true;
}

}  // namespace gpuwatch::record
