// SPDX-License-Identifier: Apache-2.0
// A thread of gpuwatch's own (own_thread.h) that does the same again and again until the process ends. One
// for each thing that may take long: a driver that never answers then stops nothing else. It belongs to the
// process that started it: a forked child does not wait for it. Thread safety: any. Signal safety: finish().
// errno is kept.
#pragma once

#include <atomic>
#include <cstdint>

namespace gpuwatch::record {

class PeriodicThread {
 public:
  using Turn = void (*)() noexcept;

  // `turn` after `first_ms`, then after each period, while the process records; `last` (if any) once, before
  // the thread ends. In both the hooks are quiet.
  constexpr PeriodicThread(uint32_t first_ms, uint32_t period_ms, Turn turn, Turn last = nullptr) noexcept
      : first_ms_(first_ms), period_ms_(period_ms), turn_(turn), last_(last) {}

  // The first call starts it. False: no thread can be had.
  bool start() noexcept;
  bool was_started() const noexcept { return phase_.load(std::memory_order_acquire) != kNone; }

  // Has it end. False: it had not after `limit_ms`, and is left alone. Idempotent.
  bool finish(uint32_t limit_ms) noexcept;

 private:
  enum Phase : uint32_t { kNone, kStarting, kRunning, kFinishing, kDone };

  static void* run(void* thread) noexcept;
  void set_phase(Phase phase) noexcept;
  void wait_while(Phase phase, uint32_t limit_ms) noexcept;

  const uint32_t first_ms_, period_ms_;
  const Turn turn_, last_;
  std::atomic<uint32_t> epoch_{0};      // of the process that started it
  std::atomic<uint32_t> phase_{kNone};  // also a futex word
};

}  // namespace gpuwatch::record
