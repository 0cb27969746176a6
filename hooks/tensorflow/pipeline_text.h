// SPDX-License-Identifier: Apache-2.0
// Reads what DebugString() of the first node of a tf.data model says: for each node a line with its name and
// id, then its fields, one a line, of which the last names the nodes that feed it:
//
//   MapAndBatch(id:5):
//     autotune=1
//     buffered_bytes=16
//     bytes_consumed=864
//     bytes_produced=848
//     processing_time=6038023
//     num_elements=53
//     inputs={ParallelInterleaveV4(id:6),}
//
// (TensorFlow 2.21.) Fields that are not known are passed over; without a name and a time nothing is read.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpuwatch::hooks::tensorflow {

struct StageCounts {
  char name[48];
  uint32_t feeds;  // index of the stage that it feeds; of the first one, which hands out the batches, itself
  uint64_t elements, bytes_produced, bytes_consumed, bytes_held, processing_ns;
};

// Nodes of one name that feed the same stage (the readers of an interleave) count as one. Stages beyond the
// capacity are left out, and what feeds only them, and nodes beyond the first 256: then `is_whole` is false.
struct Pipeline {
  size_t stages = 0;
  bool is_whole = true;
};
Pipeline read_pipeline(const char* text, size_t length, StageCounts* stages, size_t capacity) noexcept;

}  // namespace gpuwatch::hooks::tensorflow
