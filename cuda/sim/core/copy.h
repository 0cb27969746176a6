// SPDX-License-Identifier: Apache-2.0
// What a copy or a fill means: which engine, how long, and how long the caller is held. Sizes in bytes.
//
// Pinned memory moves in one piece at h2d_gbs or d2h_gbs. Pageable memory goes through a staging buffer in
// chunks: the host copies a chunk at pageable_gbs while the device moves the one before. So a pageable
// copy to the device waits for the stream, returns when the last chunk is staged, and its device part
// begins one chunk late and ends one chunk later than the call; up to small_pageable_kib it is staged at
// once and does not wait.
//
// Data: kernels compute nothing, so copies that involve the device move the first data_max_kib for programs
// that look, at once; the rest is only timed. Copies between host buffers are real and complete. Where the
// device reads as zero, only messages arrive (contents.h).
#pragma once

#include <cstddef>

#include "timeline.h"

namespace gpuwatch::sim {

struct CopyShape {
  size_t width_bytes;
  size_t height = 1;
  size_t depth = 1;
  size_t dst_pitch_bytes = 0;
  size_t src_pitch_bytes = 0;
  size_t dst_slice_bytes = 0;
  size_t src_slice_bytes = 0;

  size_t bytes() const { return width_bytes * height * depth; }
};

// The simulated time that the call waited for, or 0.
Ns copy(void* dst, const void* src, const CopyShape& shape, Stream& stream, bool async, uint32_t correlation);
Ns copy_peer(void* dst, const void* src, size_t bytes, Stream& stream, bool async, uint32_t correlation);

Ns fill(void* dst, int value, const CopyShape& shape, Stream& stream, bool async, uint32_t correlation);

}  // namespace gpuwatch::sim
