// SPDX-License-Identifier: Apache-2.0
// What the operations of libnccl do to the bytes of messages, up to `data_max_kib` of each part; the rest is
// only timed. A message whose bytes are not known (core/contents.h), or whose reduction is not computed here
// (8-bit floats, scaled sums), leaves its destination unknown and, where all is moved, unchanged.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <vector>

namespace gpuwatch::sim {

enum class Exchange {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kSend,
  kReceive
};

// One rank's part in an operation.
struct Message {
  Exchange exchange;
  const void* from = nullptr;  // null where this rank sends nothing
  void* to = nullptr;          // null where it receives nothing
  size_t count = 0;            // as the call gave it
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t reduction = ncclSum;
  int root = 0;
};

size_t size_of(ncclDataType_t type);

// Moves what the ranks have sent each other. Parts by rank; of a send and its receive, the two in this order.
void exchange(const std::vector<Message>& parts);

}  // namespace gpuwatch::sim
