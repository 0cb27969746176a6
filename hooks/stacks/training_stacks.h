// SPDX-License-Identifier: Apache-2.0
// Stack samples of the training thread: where the script's own time goes, which no hook sees. A thread of
// ours reads the Python frames of the training thread through the kernel (libinject/unwind), some 16 times a
// second: no signal, no GIL, nothing in the training thread. Where another thread has the GIL meanwhile, its
// frames are read, too: training may wait for it.
//
// From Python 3.12 on, fork() in a process with several threads warns. So the thread ends before every fork,
// in the pthread_atfork handler, and starts again at a later machine sample (libinject/context/sampler.h),
// about a second on; it also ends where no machine sample came for some seconds, because then nothing trains.
// A thread whose steps are not seen takes no machine samples: then the sampling thread takes them, goes on
// after a fork, and pauses while the process uses no CPU time (a notebook between two cells).
//
// Cost: 45 us of another core per sample, measured over 220 of them beside a busy machine: 0.08% of a core;
// 40 more with another thread. A fork waits for the thread's end, 0.1 ms, and at most kLongestEndMs. Thread
// safety: watch_training_thread() from any thread. Errors: where frames cannot be read, the source "training
// stacks" says so and the thread ends. errno is kept.
#pragma once

#include <cstdint>

namespace gpuwatch::hooks::stacks {

inline constexpr uint32_t kLongestEndMs = 20;

// The calling Python thread computes with `framework` (static text), and no hook may ever see its steps and
// its loader: a JAX loop over a generator. If the process goes on computing for two seconds and nothing else
// has begun a recording by then, it is recorded, with samples of this thread's frames and of the machine. The
// sampling thread waits for that, begins it, and calls `on_start` then, without the GIL. Needs use_python().
using StartFunction = void (*)() noexcept;
bool is_watching_computing_thread() noexcept;
bool may_watch_computing_thread() noexcept;  // false: one is watched already, or the process is recorded
void watch_computing_thread(const char* framework, StartFunction on_start) noexcept;

// A context::SampleSource: if the calling thread trains in Python, its frames are sampled from now on.
void watch_training_thread(uint64_t now) noexcept;

}  // namespace gpuwatch::hooks::stacks
