// SPDX-License-Identifier: Apache-2.0
// What the machine did while the job ran: about once a second, in the first ten seconds four times a second,
// a Sample table with CPU time of this process and of its workers, run-queue delay, throttling, pressure,
// idle and stolen time of the machine, page faults, memory, the busiest disk; and a clock sample. There is no
// thread for it: the training thread itself takes the sample when it passes a step boundary. Files are opened
// for each sample, because a job may close descriptors that it did not open. Measured on a virtual machine
// with two busy cores: 90 us a sample plus 13 us a worker or another child, 90 ppm of a second; 11 ns for a
// call that finds it too early. Thread safety: any; racing threads take one sample. Not for signal handlers.
// errno is kept.
#pragma once

#include <atomic>
#include <cstdint>

#include "libinject/base/compiler.h"

namespace gpuwatch::context {

// Once per trace file: facts about the machine (CPU quota and affinity, memory, /dev/shm) and
// the first sample.
void on_recording() noexcept;

// Whatever else belongs to a sample (NVML): called with its ticks right after it was taken, as often
// as samples are taken, on the thread that took it. Registered by the library's constructor; at most four.
using SampleSource = void (*)(uint64_t now) noexcept;
void add_sample_source(SampleSource source) noexcept;

// A worker whose CPU time counts as this process's children's. At most 256 are kept; a worker that has
// ended is dropped.
void watch_child(uint32_t pid) noexcept;

extern constinit std::atomic<uint64_t> g_next_sample;  // ticks; UINT64_MAX: not sampling
void take_sample(uint64_t now) noexcept;

// Called at step boundaries (a loader's next(), an optimizer's step, a synchronisation) with the ticks that
// the hook has read anyway.
inline void maybe_sample(uint64_t now) noexcept {
  if (GW_UNLIKELY(now >= g_next_sample.load(std::memory_order_relaxed))) take_sample(now);
}

}  // namespace gpuwatch::context
