// SPDX-License-Identifier: Apache-2.0
#include "analyzer/timeline/tracks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyzer/io/printable.h"
#include "analyzer/report/facts.h"

namespace gpuwatch::timeline {
namespace {

using model::Ns;

std::string clean(const std::string& text) {
  return io::printable(text, 512);
}

void add_lanes(const model::Device& device, const std::string& name, const std::vector<size_t>& of_stream,
               std::vector<StreamLane>& lanes) {
  const size_t first = lanes.size();
  std::vector<Ns> ends;  // of the last operation, by lane
  for (const size_t i : of_stream) {
    const model::DeviceOp& op = device.operations[i];
    const size_t at =
        size_t(std::ranges::find_if(ends, [&](Ns end) { return end <= op.begin; }) - ends.begin());
    if (at == ends.size()) {
      ends.push_back(0);
      lanes.push_back({at == 0 ? name : fmt::format("{}, lane {}", name, at + 1), {}});
    }
    lanes[first + at].operations.push_back(i);
    ends[at] = op.end;
  }
}

}  // namespace

std::string process_name(const model::Run& run, const model::Process& process) {
  if (process.worker_of != model::kNone)
    return fmt::format("DataLoader worker of {}", run.processes[process.worker_of].pid);
  const std::string script = clean(report::script_name(process));
  return process.rank < 0 ? script : fmt::format("rank {}: {}", process.rank, script);
}

std::string thread_role(const model::Process& process, size_t thread) {
  return thread == process.training_thread ? "training thread" : clean(process.threads.at(thread).name);
}

std::string call_name(const model::Run& run, const model::HostCall& call) {
  return clean(run.operations.at(call.operation).name);
}

std::string operation_name(const model::Run& run, const model::DeviceOp& op) {
  if (op.kernel != model::kNone) return clean(run.kernels.at(op.kernel).name);
  const char* const kind = trace::EnumNameRecordKind(op.kind);
  return op.bytes > 0 ? fmt::format("{} {} bytes", kind, op.bytes) : kind;
}

std::vector<StreamLane> stream_lanes(const model::Process& process, size_t device, model::TimeSpan window) {
  const model::Device& of = process.devices.at(device);
  std::map<uint16_t, std::vector<size_t>> by_stream;
  for (size_t i = 0; i < of.operations.size(); ++i)
    if (of.operations[i].begin < window.end && of.operations[i].end > window.begin)
      by_stream[of.operations[i].stream].push_back(i);
  std::vector<StreamLane> lanes;
  for (const auto& [stream, of_stream] : by_stream) {
    const uint32_t id = stream < process.streams.size() ? process.streams[stream].id : stream;
    add_lanes(of, fmt::format("GPU {} stream {}", of.ordinal, id), of_stream, lanes);
  }
  return lanes;
}

std::vector<WorkerLane> worker_lanes(const model::Process& process) {
  std::map<std::pair<uint32_t, uint32_t>, std::vector<Fetch>> by_worker;
  for (size_t i = 0; i < process.epochs.size(); ++i)
    for (const model::Batch& batch : process.epochs[i].batches)
      if (batch.worker != model::kNone && batch.fetch.length() > 0)
        by_worker[{process.epochs[i].loader, batch.worker}].push_back({i, &batch});
  std::vector<WorkerLane> lanes;
  for (auto& [of, fetches] : by_worker) {
    std::ranges::stable_sort(fetches, {}, [](const Fetch& fetch) { return fetch.batch->fetch.begin; });
    lanes.push_back({fmt::format("DataLoader {} worker {}", of.first, of.second), of.first, of.second,
                     std::move(fetches)});
  }
  return lanes;
}

}  // namespace gpuwatch::timeline
