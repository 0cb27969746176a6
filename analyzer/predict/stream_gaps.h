// SPDX-License-Identifier: Apache-2.0
// How soon after the operation before it on its stream a device begins one that was enqueued in time: 1.2 us
// after a kernel, 4.4 us for a copy after a kernel, on an H200 that CUPTI traced. Without these times a
// solver that reads four bytes 20 times a step was replayed 11% too short. Nanoseconds; pure.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "analyzer/model/run.h"
#include "analyzer/predict/stream_replay.h"

namespace gpuwatch::predict {

class StreamGaps {
 public:
  // Sets StreamOp::gap_ns of what will be `index` among the operations, where it was enqueued in time.
  // `before` is the operation before it on its stream, `called` when its call began.
  void note(StreamOp& recorded, uint32_t index, const model::DeviceOp& before, const model::DeviceOp& op,
            model::Ns called);

  // The others get what is usual between operations of their kinds: had the host been faster, they would have
  // had a gap.
  void fill(std::vector<StreamOp>& ops);

 private:
  using Kinds = std::pair<trace::RecordKind, trace::RecordKind>;  // of the operation before, and of this one
  std::map<Kinds, std::vector<model::Ns>> known_;
  std::vector<std::pair<uint32_t, Kinds>> unknown_;
};

}  // namespace gpuwatch::predict
