// SPDX-License-Identifier: Apache-2.0
// Waits for tf.data that Python does not see: inside a tf.function (Keras's fit() on TensorFlow, a loop over
// a dataset in a graph) the iterator is asked by a kernel, on a thread of TensorFlow's pool, while the thread
// that trains is blocked in the function's call. hooks/tensorflow times the kernel; what it saw on other
// threads is kept here until that call returns, and is recorded then as what the calling thread waited for.
//
// Thread safety: any; taking needs the GIL. Signal safety: none. Waits beyond the 4096 that one call may
// leave are lost, and counted.
#pragma once

#include <cstdint>

#include "libinject/base/compiler.h"

namespace gpuwatch::hooks::python {

// What this thread is in.
struct FrameworkActivity {
  uint32_t waiting = 0;       // wrapped next() calls
  uint32_t graph_calls = 0;   // wrapped calls of graphs
  uint32_t iterator = 0;      // number of the iterator being constructed, 0: none
  bool is_exhausted = false;  // the last wait on this thread ended without a batch
};
extern GW_TLS FrameworkActivity t_framework;

// The iterator of that number, or the next() in progress on it, asks this resource (IteratorResource*).
void bind_resource(uint32_t iterator, const void* resource) noexcept;

// True if a wrapped next() of the resource's iterator is under way on any thread: that one records the wait.
bool is_waited_for(const void* resource) noexcept;

// When the outermost call of a graph has returned, on its thread.
void take_graph_waits() noexcept;

// From the kernel; ticks. Kept until then.
void note_graph_wait(const void* resource, uint64_t begin, uint64_t end, bool is_exhausted) noexcept;

}  // namespace gpuwatch::hooks::python
