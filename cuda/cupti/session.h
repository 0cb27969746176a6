// SPDX-License-Identifier: Apache-2.0
// Our use of CUPTI: from the first sight of CUDA to the end of recording, with gaps while another tool has it
// (cuda/cupti/other_tools.h). Each beginning and end is a Source table with its time, so that the analyzer
// never takes a gap for an idle device. Thread safety: start_session() once; yield_session() under g_use; the
// others any. Errors: none; the Source table says what became of it. In a forked child CUPTI is never
// touched: its locks and threads are the parent's.
#pragma once

#include <cstdint>

#include "cuda/cupti/callbacks.h"

namespace gpuwatch::cuda::cupti {

// Loads CUPTI, subscribes and enables. Before the job's CUDA context exists.
void start_session(FindOperation find) noexcept;

// Fetches the finished records before the process ends; waits for that at most `limit_ms`.
void finish_session(uint32_t limit_ms) noexcept;

// Twice a second, on the flusher's thread: fetches records, or comes back after another tool is done.
void tend_session() noexcept;

// The last fetch, or, where recording has ended before the job did, full speed for the rest of the job.
void end_session(bool is_recording) noexcept;

// Puts CUPTI back as it was without us, if the session runs. Fetches what the device has finished; records of
// running work are dropped and counted.
void yield_session(const char* holder) noexcept;

// False in a forked child of the process that the session belongs to.
bool may_touch_cupti() noexcept;

}  // namespace gpuwatch::cuda::cupti
