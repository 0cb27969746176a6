// SPDX-License-Identifier: Apache-2.0
// Where the training thread stood in a call that stopped it: the Python frames, recorded beside the call; in
// a process without Python, the native ones (libinject/unwind/native_stack.h), as return addresses that the
// analyzer looks up. The training thread is whichever has called a loader's next() or an optimizer's step in
// this process; without Python, whichever has called a CUDA function that may stop it.
//
// Nothing is read with the GIL taken for it, and nothing through a pointer of ours (libinject/unwind). A
// stall that was seen before costs a walk over its frames and no text. What walks cost a thread is held to a
// thousandth of its time, or of the stall itself where that is longer.
//
// Thread safety: any, each thread its own frames; prepare_stacks() needs the GIL. Signal safety: none.
// Errors: where the interpreter's structures are unknown, or reading them is refused, the source "stacks"
// says so and no stack is recorded. errno is kept.
#pragma once

#include <atomic>
#include <cstdint>

#include "hooks/python/iterators.h"
#include "libinject/base/compiler.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/fork_epoch.h"
#include "libinject/unwind/python_stack.h"

namespace gpuwatch::hooks::python {

// A shorter call gets no stack. A step that is worth looking at takes tens of milliseconds: what stops it for
// less than one is found by its number, and then has a longer one among it.
inline constexpr uint64_t kStallNs = 1'000'000;

// kStallNs in ticks once this interpreter's frames can be walked, else the largest number.
extern constinit std::atomic<uint64_t> g_stall_ticks;

extern GW_TLS uint32_t t_training_epoch;  // the process (runtime::epoch) in which this thread trains

inline void note_training_thread() noexcept {
  t_training_epoch = runtime::epoch();
}

// Finds out whether frames can be walked: once, when recording is on, from within a call out of Python.
void prepare_stacks() noexcept;

// The same for native stacks, from the first call of CUDA. Nothing in a process that has Python.
void prepare_native_stacks() noexcept;
extern constinit std::atomic<bool> g_has_native_stacks;

// After a call of CUDA that may stop its thread.
inline void note_native_training_thread() noexcept {
  if (GW_UNLIKELY(g_has_native_stacks.load(std::memory_order_relaxed))) note_training_thread();
}

// This process's interpreter; null if it cannot be walked.
const unwind::PythonRuntime* walkable_python() noexcept;

// The text of a stack, interned; described only if its hash is new. 0 if it cannot be read.
uint32_t intern_stack(unwind::ForeignMemory& memory, const unwind::PythonRuntime& python,
                      const unwind::PythonStack& stack) noexcept;

// A walk over this thread's frames, Python's or its native ones, recorded as those of the call that `scope`
// was. Cold.
void record_stack(const record::Scope& scope) noexcept;

// After a recorded call: its stack, if it was a stall of the training thread. Where a loader has workers, a
// wait inside its next() is a wait for them, and the call itself says all there is to say.
inline void maybe_record_stack(const record::Scope& scope) noexcept {
  if (GW_LIKELY(t_training_epoch == 0)) return;
  if (scope.elapsed_ticks() < g_stall_ticks.load(std::memory_order_relaxed)) return;
  const Iterator* loader = t_activity.waiting_in;
  if (loader && loader->loader && loader->loader->num_workers > 0) return;
  record_stack(scope);
}

}  // namespace gpuwatch::hooks::python
