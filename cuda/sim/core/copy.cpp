// SPDX-License-Identifier: Apache-2.0
#include "copy.h"

#include <algorithm>
#include <cstring>

#include "config.h"
#include "contents.h"
#include "graph.h"
#include "memory.h"

namespace gpuwatch::sim {

namespace {

bool on_host(MemoryKind kind) {
  return kind == MemoryKind::kPageable || kind == MemoryKind::kPinned;
}

Ns transfer_ns(size_t bytes, double bytes_per_ns) {
  return static_cast<Ns>(static_cast<double>(bytes) / bytes_per_ns);
}

template <class Row>
void for_each_row(const CopyShape& shape, size_t limit_bytes, Row row) {
  for (size_t z = 0; z < shape.depth; ++z) {
    for (size_t y = 0; y < shape.height; ++y) {
      if (limit_bytes == 0) return;
      const size_t n = std::min(limit_bytes, shape.width_bytes);
      row(z * shape.dst_slice_bytes + y * shape.dst_pitch_bytes,
          z * shape.src_slice_bytes + y * shape.src_pitch_bytes, n);
      limit_bytes -= n;
    }
  }
}

void move_data(void* dst, const void* src, const CopyShape& shape, size_t limit_bytes) {
  for_each_row(shape, limit_bytes, [&](size_t to, size_t from, size_t n) {
    std::memmove(static_cast<char*>(dst) + to, static_cast<const char*>(src) + from, n);
  });
}

// What a copy with the device does to the bytes. Where it reads as zero, memory that a program's allocator
// hands out again holds what was copied in before, and no kernel has overwritten it: only messages count.
void carry(void* dst, const void* src, const CopyShape& shape, OpKind kind) {
  const size_t limit_bytes = config().data_max_bytes;
  if (!config().device_reads_zero) return move_data(dst, src, shape, limit_bytes);
  Contents& contents = Contents::instance();
  const bool one_row = shape.height == 1 && shape.depth == 1;
  const size_t n = std::min(shape.width_bytes, limit_bytes);
  if (kind == OpKind::kCopyD2H) {
    if (one_row && contents.is_message(src, n)) return move_data(dst, src, shape, limit_bytes);
    for_each_row(shape, limit_bytes,
                 [&](size_t to, size_t, size_t row) { std::memset(static_cast<char*>(dst) + to, 0, row); });
    return;
  }
  const size_t span = one_row ? shape.width_bytes
                              : shape.dst_slice_bytes * shape.depth + shape.dst_pitch_bytes * shape.height;
  contents.forget(dst, span);
  if (!one_row) return;
  if (kind == OpKind::kCopyH2D) {
    move_data(dst, src, shape, limit_bytes);
    contents.wrote(dst, n, Contents::Origin::kHost);
  } else if (contents.moved(dst, src, n)) {
    move_data(dst, src, shape, limit_bytes);
  }
}

Op copy_op(OpKind kind, MemoryKind src, MemoryKind dst, size_t bytes, bool async, uint32_t correlation) {
  Op op;
  op.kind = kind;
  op.src = src;
  op.dst = dst;
  op.bytes = bytes;
  op.async = async;
  op.correlation = correlation;
  op.latency_ns = config().launch_latency_ns;
  op.signals = std::make_shared<Marker>();
  return op;
}

// Staging runs ahead of the device by one chunk; the slower of the two sets the pace.
struct Staged {
  Ns first_chunk_ns;  // host part before (to the device) or after (from it) the device part
  Ns device_ns;
};
Staged staged(size_t bytes, double device_bytes_per_ns) {
  const Config& c = config();
  const size_t chunk = std::min(bytes, c.staging_chunk_bytes);
  const double pace = std::min(c.pageable_bytes_per_ns, device_bytes_per_ns);
  return {transfer_ns(chunk, c.pageable_bytes_per_ns),
          c.copy_latency_ns + transfer_ns(bytes - chunk, pace) + transfer_ns(chunk, device_bytes_per_ns)};
}

Ns copy_to_device(Op op, Stream& stream) {
  const Config& c = config();
  Timeline& timeline = Timeline::instance();
  const MarkerRef end = op.signals;
  const bool pageable = op.src == MemoryKind::kPageable;
  const bool must_stage = pageable && !is_capturing(stream) && op.bytes > c.small_pageable_bytes;
  op.duration_ns = c.copy_latency_ns + transfer_ns(op.bytes, c.h2d_bytes_per_ns);
  if (!must_stage) {
    const bool wait = !op.async && !pageable && !is_capturing(stream);
    issue(stream, std::move(op));
    return wait ? timeline.wait_host(end) : 0;
  }
  timeline.wait_host(timeline.record(stream));
  const Staged times = staged(op.bytes, c.h2d_bytes_per_ns);
  op.latency_ns = times.first_chunk_ns;
  op.duration_ns = times.device_ns;
  const size_t last_chunk = std::min(op.bytes, c.staging_chunk_bytes);
  timeline.submit(stream, std::move(op));
  // All staged: the device still has the last chunk to move.
  if (end->at == kPending) return timeline.wait_host(end);  // behind a host function of another stream
  const Ns staged_ns = end->at - transfer_ns(last_chunk, c.h2d_bytes_per_ns);
  sleep_until(staged_ns, c.spin_ns);
  return staged_ns;
}

Ns copy_from_device(Op op, Stream& stream) {
  const Config& c = config();
  const MarkerRef end = op.signals;
  const bool capturing = is_capturing(stream);
  const bool pageable = op.dst == MemoryKind::kPageable;
  const Staged times = staged(op.bytes, c.d2h_bytes_per_ns);
  op.duration_ns = pageable ? times.device_ns : c.copy_latency_ns + transfer_ns(op.bytes, c.d2h_bytes_per_ns);
  const bool wait = !capturing && (!op.async || pageable);
  issue(stream, std::move(op));
  if (!wait) return 0;
  const Ns device_done_ns = Timeline::instance().wait_host(end);
  if (!pageable) return device_done_ns;
  const Ns unstaged_ns = device_done_ns + times.first_chunk_ns;
  sleep_until(unstaged_ns, c.spin_ns);
  return unstaged_ns;
}

}  // namespace

Ns copy(void* dst, const void* src, const CopyShape& shape, Stream& stream, bool async,
        uint32_t correlation) {
  if (shape.bytes() == 0) return 0;
  const MemoryKind src_kind = Memory::instance().kind_of(src);
  const MemoryKind dst_kind = Memory::instance().kind_of(dst);
  if (on_host(src_kind) && on_host(dst_kind)) {
    Timeline& timeline = Timeline::instance();
    const Ns until = timeline.wait_host(timeline.record(stream));
    move_data(dst, src, shape, shape.bytes());
    return until;
  }
  const OpKind kind = on_host(src_kind)   ? OpKind::kCopyH2D
                      : on_host(dst_kind) ? OpKind::kCopyD2H
                                          : OpKind::kCopyD2D;
  carry(dst, src, shape, kind);
  Op op = copy_op(kind, src_kind, dst_kind, shape.bytes(), async, correlation);
  if (kind == OpKind::kCopyH2D) return copy_to_device(std::move(op), stream);
  if (kind == OpKind::kCopyD2H) return copy_from_device(std::move(op), stream);
  op.duration_ns = config().copy_latency_ns + transfer_ns(op.bytes, config().d2d_bytes_per_ns);
  issue(stream, std::move(op));
  return 0;
}

Ns copy_peer(void* dst, const void* src, size_t bytes, Stream& stream, bool async, uint32_t correlation) {
  const CopyShape shape{bytes};
  carry(dst, src, shape, OpKind::kCopyP2P);
  Op op = copy_op(OpKind::kCopyP2P, MemoryKind::kDevice, MemoryKind::kDevice, bytes, async, correlation);
  op.duration_ns = config().copy_latency_ns + transfer_ns(bytes, config().nccl_bytes_per_ns);
  issue(stream, std::move(op));
  return 0;
}

Ns fill(void* dst, int value, const CopyShape& shape, Stream& stream, bool async, uint32_t correlation) {
  if (shape.bytes() == 0) return 0;
  Contents::instance().forget(dst, shape.bytes());
  for_each_row(shape, config().data_max_bytes,
               [&](size_t to, size_t, size_t n) { std::memset(static_cast<char*>(dst) + to, value, n); });
  Op op = copy_op(OpKind::kMemset, MemoryKind::kUnknown, Memory::instance().kind_of(dst), shape.bytes(),
                  async, correlation);
  op.memset_value = static_cast<uint32_t>(value);
  op.duration_ns = config().copy_latency_ns + transfer_ns(op.bytes, config().d2d_bytes_per_ns);
  const bool wait =
      !async && on_host(op.dst) && !is_capturing(stream);  // a device fill does not hold the host
  const MarkerRef end = op.signals;
  issue(stream, std::move(op));
  return wait ? Timeline::instance().wait_host(end) : 0;
}

}  // namespace gpuwatch::sim
