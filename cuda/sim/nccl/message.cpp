// SPDX-License-Identifier: Apache-2.0
#include "nccl/message.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "core/config.h"
#include "core/contents.h"
#include "core/memory.h"

namespace gpuwatch::sim {

namespace {

// bf16 is the upper half of a float.
struct Bf16 {
  uint16_t bits = 0;
  Bf16() = default;
  Bf16(float value) : bits(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16)) {}
  operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
};

// A part of a message: where it lies, and its bytes if they are known.
struct Bytes {
  bool known = false;
  std::vector<char> data;
};

bool lies_on_device(const void* at, size_t size_bytes) {
  const auto block = Memory::instance().find(at);
  return block && reinterpret_cast<uintptr_t>(at) + size_bytes <= block->begin + block->size_bytes;
}

// `offset` and `size` in bytes.
Bytes read(const void* from, size_t offset, size_t size) {
  const char* at = static_cast<const char*>(from) + offset;
  const size_t n = std::min(size, config().data_max_bytes);
  if (!from || !lies_on_device(at, size)) return {};
  if (config().device_reads_zero && !Contents::instance().is_known(at, n)) return {};
  return {true, {at, at + n}};
}

void write(void* to, size_t offset, size_t size, const Bytes& bytes) {
  char* at = static_cast<char*>(to) + offset;
  if (!to || !lies_on_device(at, size)) return;
  Contents::instance().forget(at, size);
  if (!bytes.known) return;
  std::memcpy(at, bytes.data.data(), bytes.data.size());
  Contents::instance().wrote(at, bytes.data.size(), Contents::Origin::kMessage);
}

template <class T>
T combined(T a, T b, ncclRedOp_t op) {
  switch (op) {
    case ncclProd:
      return static_cast<T>(a * b);
    case ncclMax:
      return std::max(a, b);
    case ncclMin:
      return std::min(a, b);
    default:
      return static_cast<T>(a + b);
  }
}

template <class T>
Bytes reduced(const std::vector<Bytes>& parts, ncclRedOp_t op) {
  Bytes result = parts.front();
  for (size_t at = 0; at + sizeof(T) <= result.data.size(); at += sizeof(T)) {
    T total, next;
    std::memcpy(&total, parts.front().data.data() + at, sizeof(T));
    for (size_t rank = 1; rank < parts.size(); ++rank) {
      std::memcpy(&next, parts[rank].data.data() + at, sizeof(T));
      total = combined(total, next, op);
    }
    if (op == ncclAvg) total = static_cast<T>(total / static_cast<T>(parts.size()));
    std::memcpy(result.data.data() + at, &total, sizeof(T));
  }
  return result;
}

Bytes reduce(const std::vector<Bytes>& parts, ncclDataType_t type, ncclRedOp_t op) {
  const bool all_known =
      std::all_of(parts.begin(), parts.end(), [](const Bytes& part) { return part.known; });
  if (!all_known || op >= ncclNumOps) return {};
  if (parts.size() == 1) return parts.front();
  switch (type) {
    case ncclInt8:
      return reduced<int8_t>(parts, op);
    case ncclUint8:
      return reduced<uint8_t>(parts, op);
    case ncclInt32:
      return reduced<int32_t>(parts, op);
    case ncclUint32:
      return reduced<uint32_t>(parts, op);
    case ncclInt64:
      return reduced<int64_t>(parts, op);
    case ncclUint64:
      return reduced<uint64_t>(parts, op);
    case ncclFloat16:
      return reduced<_Float16>(parts, op);
    case ncclFloat32:
      return reduced<float>(parts, op);
    case ncclFloat64:
      return reduced<double>(parts, op);
    case ncclBfloat16:
      return reduced<Bf16>(parts, op);
    default:
      return {};
  }
}

// Every rank's bytes at this offset of what it sends.
std::vector<Bytes> read_all(const std::vector<Message>& parts, size_t offset, size_t size) {
  std::vector<Bytes> result;
  for (const Message& part : parts) result.push_back(read(part.from, offset, size));
  return result;
}

}  // namespace

size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    default:
      return 1;
  }
}

// Everything is read before anything is written: buffers may be the same.
void exchange(const std::vector<Message>& parts) {
  const Message& first = parts.front();
  const size_t size = first.count * size_of(first.type), ranks = parts.size();
  std::vector<std::vector<Bytes>> received(ranks);  // by rank and place
  const bool scattered = first.exchange == Exchange::kReduceScatter || first.exchange == Exchange::kAllToAll;
  std::vector<Bytes> sent = scattered ? std::vector<Bytes>{} : read_all(parts, 0, size);
  for (size_t rank = 0; rank < ranks; ++rank) {
    if (scattered) sent = read_all(parts, rank * size, size);
    switch (first.exchange) {
      case Exchange::kAllReduce:
      case Exchange::kReduceScatter:
        received[rank] = {reduce(sent, first.type, first.reduction)};
        break;
      case Exchange::kReduce:
        if (static_cast<int>(rank) == first.root)
          received[rank] = {reduce(sent, first.type, first.reduction)};
        break;
      case Exchange::kBroadcast:
        received[rank] = {sent[static_cast<size_t>(first.root)]};
        break;
      case Exchange::kAllGather:
      case Exchange::kAllToAll:
        received[rank] = sent;
        break;
      case Exchange::kSend:
      case Exchange::kReceive:
        if (rank == 1) received[rank] = {sent[0]};
        break;
    }
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    for (size_t place = 0; place < received[rank].size(); ++place) {
      write(parts[rank].to, place * size, size, received[rank][place]);
    }
  }
}

}  // namespace gpuwatch::sim
