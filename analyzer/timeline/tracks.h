// SPDX-License-Identifier: Apache-2.0
// What a timeline of a run has tracks of, and how these and their slices are called: the same in Perfetto's
// format and in the HTML report. Pure functions; names are printable.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "analyzer/model/run.h"

namespace gpuwatch::timeline {

std::string process_name(const model::Run& run, const model::Process& process);
std::string thread_role(const model::Process& process, size_t thread);
std::string call_name(const model::Run& run, const model::HostCall& call);
std::string operation_name(const model::Run& run, const model::DeviceOp& op);

// Kernels of a CUDA graph run at the same time and are recorded as of one stream: then it has several lanes.
struct StreamLane {
  std::string name;
  std::vector<size_t> operations;  // indices into Device::operations, none begins before the one before ends
};
inline constexpr model::TimeSpan kAllTime{std::numeric_limits<model::Ns>::min(),
                                          std::numeric_limits<model::Ns>::max()};
// Of the operations that `window` holds a part of.
std::vector<StreamLane> stream_lanes(const model::Process& process, size_t device,
                                     model::TimeSpan window = kAllTime);

struct Fetch {
  size_t epoch = 0;  // index into Process::epochs
  const model::Batch* batch = nullptr;
};

// Over all epochs: a worker may live for one of them only.
struct WorkerLane {
  std::string name;
  uint32_t loader = 0, worker = 0;
  std::vector<Fetch> fetches;  // by their begin
};
std::vector<WorkerLane> worker_lanes(const model::Process& process);

}  // namespace gpuwatch::timeline
