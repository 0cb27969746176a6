// SPDX-License-Identifier: Apache-2.0
// How long the calling thread has been runnable without running, in ns since it began: what other work on the
// machine cost it. 0 where the kernel does not keep it (CONFIG_SCHED_INFO).
//
// Asked twice a fetch and once a step. Opening and closing the file costs 5 to 12 us, reading it once it is
// open 1 to 2: a process's main thread, which is what fetches and steps, keeps it open.
//
// Thread safety: any. Signal safety: no. errno is kept.
#pragma once

#include <cstdint>

namespace gpuwatch::context {

uint64_t thread_run_delay_ns() noexcept;

}  // namespace gpuwatch::context
