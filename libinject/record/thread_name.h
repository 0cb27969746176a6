// SPDX-License-Identifier: Apache-2.0
// The names that a job gives its threads: gloo's "pt_gloo_runloop" tells whose waits are for other ranks.
// Written once, when a thread records for the first time, and only where it is not the process's, which
// threads inherit. One system call, 0.1 us; a thread's first record takes some 10. Thread safety: any. Signal
// safety: yes. errno is kept.
#pragma once

#include <cstdint>

namespace gpuwatch::record {

void note_process_name() noexcept;                  // when recording begins
void put_given_thread_name(uint32_t tid) noexcept;  // on that thread

}  // namespace gpuwatch::record
