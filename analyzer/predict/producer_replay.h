// SPDX-License-Identifier: Apache-2.0
// Replay of programs that load data with threads of their own: no loader protocol is recorded, but what each
// thread was blocked in is. A producer is busy while it waits for nobody; busy time per step is its service
// time, and the training thread's waits shrink as producers are added. Nanoseconds; pure functions.
#pragma once

#include <optional>
#include <vector>

#include "analyzer/attribute/attribution.h"
#include "analyzer/model/run.h"
#include "analyzer/predict/loader_replay.h"

namespace gpuwatch::predict {

struct ProducerReplayInput {
  std::vector<uint32_t> threads;      // indices into Process::threads
  double busy_share = 0;              // of the producers' time
  double service_ms = 0;              // producer time that one step's data takes
  double wait_ms = 0;                 // training thread waiting for data, per step
  uint32_t wait_call = model::kNone;  // a call of the training thread that waited
  LoaderReplayInput loader;           // the same in the form that replay() runs
};

// nullopt: the process has a framework loader, no input wait, or no thread that could be a producer.
std::optional<ProducerReplayInput> extract_producers(const model::Run& run,
                                                     const attribute::RankAttribution& rank);

}  // namespace gpuwatch::predict
