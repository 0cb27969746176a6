// SPDX-License-Identifier: Apache-2.0
#include "cuda/cupti/flusher.h"

#include <atomic>
#include <cstdlib>

#include "cuda/cupti/session.h"
#include "libinject/record/periodic_thread.h"
#include "libinject/record/recorder.h"

namespace gpuwatch::cuda::cupti {
namespace {

constexpr uint32_t kPeriodMs = 500;     // of records that a kill can cost
constexpr uint32_t kExitLimitMs = 100;  // what the job may wait for us when it ends

constinit const Api* g_api = nullptr;
constinit std::atomic<bool> g_exit_is_watched{false};

uint64_t device_now_ns() noexcept {
  uint64_t now = 0;
  return g_api->cuptiGetTimestamp(&now) == CUPTI_SUCCESS ? now : 0;
}

void end() noexcept {
  end_session(record::is_recording());
}

constinit record::PeriodicThread g_thread{kPeriodMs, kPeriodMs, tend_session, end};

void at_exit(int, void*) noexcept {
  finish_flusher(kExitLimitMs);
}

}  // namespace

void prepare_flusher(const Api* api) noexcept {
  g_api = api;
}

void sample_device_clock() noexcept {
  record::sample_clocks(device_now_ns);
}

void start_waiting() noexcept {
  if (g_thread.start()) return;
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
  if (!g_thread.finish(limit_ms)) record::lose("flushes of device records cut short by the process's end", 1);
}

}  // namespace gpuwatch::cuda::cupti
