// SPDX-License-Identifier: Apache-2.0
#include "cuda/cupti/flusher.h"

#include <linux/futex.h>
#include <time.h>

#include <atomic>
#include <cstdlib>

#include "cuda/cupti/session.h"
#include "libinject/base/clock.h"
#include "libinject/base/errno_guard.h"
#include "libinject/base/syscall.h"
#include "libinject/record/own_thread.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/fork_epoch.h"

namespace gpuwatch::cuda::cupti {
namespace {

constexpr long kPeriodMs = 500;         // of records that a kill can cost
constexpr uint32_t kExitLimitMs = 100;  // what the job may wait for us when it ends

enum Phase : uint32_t { kNone, kStarting, kRunning, kFinishing, kDone };

constinit const Api* g_api = nullptr;
constinit std::atomic<bool> g_exit_is_watched{false};
constinit uint32_t g_epoch = 0;
constinit std::atomic<uint32_t> g_phase{kNone};  // also a futex word
constinit OnFetch g_on_fetch = nullptr;

// Until the word is no longer `value`, or the time is up. Raw: a hooked wait would be taken for the job's.
void wait_while(std::atomic<uint32_t>& word, uint32_t value, long limit_ms) noexcept {
  const timespec limit{limit_ms / 1000, limit_ms % 1000 * 1000000};
  base::raw_syscall(SYS_futex, base::address(&word), FUTEX_WAIT_PRIVATE, value, base::address(&limit));
}

void set_phase(Phase phase) noexcept {
  g_phase.store(phase, std::memory_order_release);
  base::raw_syscall(SYS_futex, base::address(&g_phase), FUTEX_WAKE_PRIVATE, INT32_MAX);
}

uint64_t device_now_ns() noexcept {
  uint64_t now = 0;
  return g_api->cuptiGetTimestamp(&now) == CUPTI_SUCCESS ? now : 0;
}

void* run(void*) noexcept {
  const record::Quiet quiet;  // CUPTI takes locks and waits in here
  record::name_own_thread();
  while (g_phase.load(std::memory_order_acquire) == kRunning) {
    wait_while(g_phase, kRunning, kPeriodMs);
    if (!record::is_recording()) break;
    tend_session();
    if (g_on_fetch) g_on_fetch(base::ticks());
  }
  end_session(record::is_recording());
  set_phase(kDone);
  return nullptr;
}

void at_exit(int, void*) noexcept {
  finish_flusher(kExitLimitMs);
}

}  // namespace

void prepare_flusher(const Api* api) noexcept {
  g_api = api;
  g_epoch = runtime::epoch();
}

void after_each_fetch(OnFetch function) noexcept {
  g_on_fetch = function;
}

bool has_flusher() noexcept {
  return g_phase.load(std::memory_order_acquire) != kNone;
}

void sample_device_clock() noexcept {
  record::sample_clocks(device_now_ns);
}

void start_waiting() noexcept {
  uint32_t none = kNone;
  if (!g_phase.compare_exchange_strong(none, kStarting)) return;
  const base::ErrnoGuard keep_errno;
  const record::Quiet quiet;
  g_phase.store(kRunning, std::memory_order_release);
  if (record::start_own_thread(run)) return;
  g_phase.store(kDone, std::memory_order_release);
  record::put_source("cupti",
                     {trace::SourceState::Partial,
                      "on, but its flush thread could not be started: device records may be missing"});
}

bool start_flusher() noexcept {
  start_waiting();
  // Exit handlers run last in, first out. Registered now, after CUDA has set itself up, ours
  // finds CUDA alive.
  if (!g_exit_is_watched.exchange(true)) on_exit(at_exit, nullptr);
  return true;
}

void finish_flusher(uint32_t limit_ms) noexcept {
  if (runtime::epoch() != g_epoch) return;  // the thread and CUPTI are the parent's
  uint32_t running = kRunning;
  if (!g_phase.compare_exchange_strong(running, kFinishing)) return;
  const base::ErrnoGuard keep_errno;
  set_phase(kFinishing);
  const uint64_t until = base::monotonic_ns() + limit_ms * 1000000ull;
  while (g_phase.load(std::memory_order_acquire) == kFinishing) {
    const uint64_t now = base::monotonic_ns();
    if (now >= until) {
      record::lose("flushes of device records cut short by the process's end", 1);
      return;
    }
    wait_while(g_phase, kFinishing, static_cast<long>((until - now) / 1000000) + 1);
  }
}

}  // namespace gpuwatch::cuda::cupti
