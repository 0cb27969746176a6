// SPDX-License-Identifier: Apache-2.0
// The subscription to CUPTI: from the first sight of CUDA to the end of recording. One subscriber per process
// is all that CUPTI allows; when somebody else is it, we say so and stay away. Thread safety: start() once;
// the others any. Errors: none; the trace's Source table says what became of it. In a forked child CUPTI is
// never touched: its locks and threads are the parent's.
#pragma once

#include <cstdint>

#include "cuda/cupti/callbacks.h"

namespace gpuwatch::cuda::cupti {

// Loads CUPTI, subscribes and enables. Before the job's CUDA context exists.
void start_session(FindOperation find) noexcept;

// Fetches the finished records before the process ends; waits for that at most `limit_ms`.
void finish_session(uint32_t limit_ms) noexcept;

}  // namespace gpuwatch::cuda::cupti
