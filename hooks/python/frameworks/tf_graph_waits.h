// SPDX-License-Identifier: Apache-2.0
// Waits for tf.data that Python does not see. Inside a tf.function (Keras's fit() on TensorFlow, a loop over
// a dataset in a graph) a kernel calls the iterator on a thread of TensorFlow's pool, while the training
// thread is blocked in the call of the function. hooks/tensorflow times the kernel; waits on other threads
// are kept here until that call returns, and are then recorded as waits of the calling thread.
//
// Thread safety: any; take_graph_waits() needs the GIL. Signal safety: none. Of more than 4096 waits in one
// call the oldest are dropped, and counted.
#pragma once

#include <cstdint>

#include "libinject/base/compiler.h"

namespace gpuwatch::hooks::python {

// What this thread is doing.
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

// From the kernel, times in ticks. Kept until take_graph_waits().
void note_graph_wait(const void* resource, uint64_t begin, uint64_t end, bool is_exhausted) noexcept;

}  // namespace gpuwatch::hooks::python
