// SPDX-License-Identifier: Apache-2.0
// The stack of the training thread when a call stalled it: the Python frames, recorded with the call; in a
// process without Python the native frames (libinject/unwind/native_stack.h), as return addresses that the
// analyzer resolves. The training thread is the one that called a loader's next() or an optimizer's step in
// this process; without Python, the one that called a CUDA function that can block.
//
// The GIL is not taken, and CPython's structures are read through the kernel, so a wrong address is an error
// and no crash (libinject/unwind). A stack that was recorded before costs a walk over its frames and no
// text. Walks may take a thousandth of a thread's time, or of the stall itself where that is longer.
//
// Thread safety: any, each thread its own frames; use_python() needs the GIL. Signal safety: none. Errors:
// where the interpreter's structures are unknown, or reading them is refused, the source "stacks" says so
// and no stack is recorded. errno is kept.
#pragma once

#include <atomic>
#include <cstdint>

#include "libinject/base/compiler.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/fork_epoch.h"
#include "libinject/unwind/python_stack.h"

namespace gpuwatch::hooks::stacks {

// A shorter call gets no stack. A training step takes tens of milliseconds: stalls of less than 1 ms matter
// only by their number, and then some of them are longer.
inline constexpr uint64_t kStallNs = 1'000'000;

// kStallNs in ticks once this interpreter's frames can be walked, else the largest number.
extern constinit std::atomic<uint64_t> g_stall_ticks;

extern GW_TLS uint32_t t_training_epoch;  // the process (runtime::epoch) in which this thread trains

// This thread is in next() of a loader with workers, and so waits for them (worker_stacks.h).
extern GW_TLS bool t_is_waiting_for_workers;

inline void note_training_thread() noexcept {
  t_training_epoch = runtime::epoch();
}

// This process's interpreter, whose frames can be walked; `thread_state` answers with the calling thread's
// PyThreadState, null if it has none. Once, under the GIL.
using ThreadState = void* (*)();
void use_python(const unwind::PythonRuntime& python, ThreadState thread_state) noexcept;

// After use_python(), when recording is on: stalls get stacks from now on.
void start_measuring_stalls() noexcept;

// Finds out whether native frames can be walked, at the first call of CUDA. Nothing in a process that has
// Python.
void prepare_native_stacks() noexcept;
extern constinit std::atomic<bool> g_has_native_stacks;

// After a call of CUDA that may stop its thread.
inline void note_native_training_thread() noexcept {
  if (GW_UNLIKELY(g_has_native_stacks.load(std::memory_order_relaxed))) note_training_thread();
}

// The interpreter given to use_python(); null if there is none.
const unwind::PythonRuntime* walkable_python() noexcept;

// The calling thread's PyThreadState; 0 without one, or without walkable_python().
uint64_t python_thread_state() noexcept;

// The text of a stack, interned; described only if its hash is new. 0 if it cannot be read.
uint32_t intern_stack(unwind::ForeignMemory& memory, const unwind::PythonRuntime& python,
                      const unwind::PythonStack& stack) noexcept;

// Walks over this thread's frames, Python's or native ones, and records them as those of the call `scope`.
void record_stack(const record::Scope& scope) noexcept;

// After a recorded call: its stack, if the training thread stalled in it. A wait inside next() of a loader
// with workers is a wait for them, and needs no stack.
inline void maybe_record_stack(const record::Scope& scope) noexcept {
  if (GW_LIKELY(t_training_epoch == 0)) return;
  if (scope.elapsed_ticks() < g_stall_ticks.load(std::memory_order_relaxed)) return;
  if (t_is_waiting_for_workers) return;
  record_stack(scope);
}

}  // namespace gpuwatch::hooks::stacks
