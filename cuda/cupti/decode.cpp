// SPDX-License-Identifier: Apache-2.0
#include "cuda/cupti/decode.h"

#include "cuda/cupti/kernels.h"
#include "cuda/cupti/layout.h"
#include "cuda/cupti/names.h"
#include "libinject/record/recorder.h"
#include "libinject/trace/layout.h"

namespace gpuwatch::cuda::cupti {
namespace {

using trace::RecordKind;

struct Interval {
  uint64_t start;
  uint64_t end;
  // CUPTI leaves 0 where it has no time: work that was still running when a flush was forced.
  bool is_known() const noexcept { return start != 0 && end >= start; }
};

struct Place {
  uint16_t stream;
  uint32_t correlation;
};

void put(RecordKind kind, uint8_t flags, const Interval& time, const Place& place, uint32_t b) noexcept {
  if (!time.is_known()) {
    record::lose("device records without a time", 1);
    return;
  }
  uint64_t span = time.end - time.start;
  if (span > UINT32_MAX) {
    span >>= 10;
    flags |= trace::kLongSpan;
    if (span > UINT32_MAX) span = UINT32_MAX;
  }
  record::device(
      trace::Slot(kind, flags, place.stream, static_cast<uint32_t>(span), time.start, place.correlation, b));
}

// `b` of a copy or memset, and the flag that goes with it.
struct Bytes {
  uint32_t count;
  uint8_t flag;
};
Bytes pack(uint64_t bytes) noexcept {
  if (bytes <= UINT32_MAX) return {static_cast<uint32_t>(bytes), 0};
  const uint64_t kib = bytes >> 10;
  return {kib > UINT32_MAX ? UINT32_MAX : static_cast<uint32_t>(kib), trace::kScaledBytes};
}

void put_kernel(const void* record) noexcept {
  namespace at = kernel;
  KernelShape shape;
  __builtin_memcpy(shape.grid, static_cast<const uint8_t*>(record) + at::kGrid, sizeof shape.grid);
  __builtin_memcpy(shape.block, static_cast<const uint8_t*>(record) + at::kBlock, sizeof shape.block);
  shape.shared_bytes =
      field<uint32_t>(record, at::kStaticShared) + field<uint32_t>(record, at::kDynamicShared);
  shape.registers = field<uint16_t>(record, at::kRegisters);
  const Place place{stream_index(field<uint32_t>(record, at::kDevice), field<uint32_t>(record, at::kContext),
                                 field<uint32_t>(record, at::kStream)),
                    field<uint32_t>(record, at::kCorrelation)};
  put(RecordKind::Kernel, 0, {field<uint64_t>(record, at::kStart), field<uint64_t>(record, at::kEnd)}, place,
      kernel_id(field<const char*>(record, at::kName), shape));
}

RecordKind copy_kind(uint8_t kind) noexcept {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOA:
      return RecordKind::CopyH2D;
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOH:
      return RecordKind::CopyD2H;
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOA:
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOD:
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOA:
      return RecordKind::CopyD2D;
    default:
      return RecordKind::CopyOther;
  }
}

void put_copy(const void* record, RecordKind kind, size_t correlation_at) noexcept {
  namespace at = copy;
  const Bytes bytes = pack(field<uint64_t>(record, at::kBytes));
  uint8_t flags = bytes.flag;
  if (field<uint8_t>(record, at::kSource) == CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE)
    flags |= trace::kSourcePageable;
  if (field<uint8_t>(record, at::kDestination) == CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE) {
    flags |= trace::kDestinationPageable;
  }
  const Place place{stream_index(field<uint32_t>(record, at::kDevice), field<uint32_t>(record, at::kContext),
                                 field<uint32_t>(record, at::kStream)),
                    field<uint32_t>(record, correlation_at)};
  put(kind, flags, {field<uint64_t>(record, at::kStart), field<uint64_t>(record, at::kEnd)}, place,
      bytes.count);
}

void put_memset(const void* record) noexcept {
  namespace at = fill;
  const Bytes bytes = pack(field<uint64_t>(record, at::kBytes));
  const Place place{stream_index(field<uint32_t>(record, at::kDevice), field<uint32_t>(record, at::kContext),
                                 field<uint32_t>(record, at::kStream)),
                    field<uint32_t>(record, at::kCorrelation)};
  put(RecordKind::Memset, bytes.flag,
      {field<uint64_t>(record, at::kStart), field<uint64_t>(record, at::kEnd)}, place, bytes.count);
}

void put_graph(const void* record) noexcept {
  namespace at = graph;
  const Place place{stream_index(field<uint32_t>(record, at::kDevice), field<uint32_t>(record, at::kContext),
                                 field<uint32_t>(record, at::kStream)),
                    field<uint32_t>(record, at::kCorrelation)};
  put(RecordKind::GraphRun, 0, {field<uint64_t>(record, at::kStart), field<uint64_t>(record, at::kEnd)},
      place, field<uint32_t>(record, at::kGraph));
}

void put_overhead(const void* record, uint32_t version) noexcept {
  namespace at = overhead;
  const uint32_t correlation = version >= kCupti12_4 ? field<uint32_t>(record, at::kCorrelation) : 0;
  put(RecordKind::Overhead, 0, {field<uint64_t>(record, at::kStart), field<uint64_t>(record, at::kEnd)},
      {0, field<uint32_t>(record, at::kOverheadKind)}, correlation);
}

}  // namespace

void decode(const Api& api, uint8_t* buffer, size_t valid_bytes) noexcept {
  CUpti_Activity* record = nullptr;
  while (api.cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS) {
    switch (record->kind) {
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      case CUPTI_ACTIVITY_KIND_KERNEL:
        put_kernel(record);
        break;
      case CUPTI_ACTIVITY_KIND_MEMCPY:
        put_copy(record, copy_kind(field<uint8_t>(record, copy::kKind)), copy::kCorrelation);
        break;
      case CUPTI_ACTIVITY_KIND_MEMCPY2:
        put_copy(record, RecordKind::CopyOther, copy::kPeerCorrelation);
        break;
      case CUPTI_ACTIVITY_KIND_MEMSET:
        put_memset(record);
        break;
      case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
        put_graph(record);
        break;
      case CUPTI_ACTIVITY_KIND_OVERHEAD:
        put_overhead(record, api.version);
        break;
      default:
        break;
    }
  }
}

}  // namespace gpuwatch::cuda::cupti
