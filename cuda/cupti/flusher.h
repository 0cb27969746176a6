// SPDX-License-Identifier: Apache-2.0
// A thread that tends the CUPTI session (session.h) and fetches finished device records twice a second
// (CUPTI's own periodic flush delivers full buffers only), and samples CUPTI's clock together with ours. It
// exists in processes that gave a device work, or found CUPTI taken, never in a forked child. Thread safety:
// any. Signal safety: finish_flusher().
#pragma once

#include <cstdint>

#include "cuda/cupti/api.h"

namespace gpuwatch::cuda::cupti {

void prepare_flusher(const Api* api) noexcept;

// A sample of CUPTI's clock together with ours; one at the start, then one with each fetch.
void sample_device_clock() noexcept;

// Starts the thread if it does not run yet, and sees to it that the process's exit fetches the rest. Called
// when CUDA is up. True: need not be called again.
bool start_flusher() noexcept;

// Starts the thread alone, to come back when another tool has left CUPTI.
void start_waiting() noexcept;

// Fetches everything that the device has finished and ends the thread. The caller waits at most `limit_ms`;
// after that the remaining records are dropped, so that the job is not held up. Idempotent.
void finish_flusher(uint32_t limit_ms) noexcept;

}  // namespace gpuwatch::cuda::cupti
