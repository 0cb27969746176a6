// SPDX-License-Identifier: Apache-2.0
// A thread of gpuwatch's own in the job: no signal is ever delivered to it, nobody has to join it, and both
// `ps` and the trace call it "gpuwatch". Thread safety: any. Errors: false where no thread can be had (libc
// without libpthread, RLIMIT_NPROC). errno may change.
#pragma once

namespace gpuwatch::record {

using ThreadFunction = void* (*)(void*) noexcept;
bool start_own_thread(ThreadFunction run, void* argument = nullptr) noexcept;

// First thing in the thread's function.
void name_own_thread() noexcept;

}  // namespace gpuwatch::record
