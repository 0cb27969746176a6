// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/match.h"

#include <algorithm>
#include <vector>

#include "analyzer/model/captures.h"

namespace gpuwatch::model {
namespace {

using trace::OpClass;

struct Launch {
  uint32_t correlation;
  uint32_t thread;
  uint32_t call;
};

std::vector<Launch> launches_of(const Process& process) {
  std::vector<Launch> launches;
  for (size_t t = 0; t < process.threads.size(); ++t) {
    const auto& calls = process.threads[t].calls;
    for (size_t c = 0; c < calls.size(); ++c) {
      if (calls[c].correlation_or_object == 0 || !enqueues(calls[c].op_class)) continue;
      launches.push_back(
          {calls[c].correlation_or_object, static_cast<uint32_t>(t), static_cast<uint32_t>(c)});
    }
  }
  // Where an outer call carries its inner one's id (cudaLaunchKernel over the driver's), the outer one comes
  // first and is the one that the program made.
  const auto lower = [](const Launch& a, const Launch& b) { return a.correlation < b.correlation; };
  if (!std::is_sorted(launches.begin(), launches.end(), lower)) {
    std::stable_sort(launches.begin(), launches.end(), lower);
  }
  return launches;
}

// Correlation ids that device records carry.
class RecordedIds {
 public:
  explicit RecordedIds(const Process& process) {
    for (const auto& device : process.devices)
      for (const auto& op : device.operations) ids_.push_back(op.correlation);
    if (!std::ranges::is_sorted(ids_)) std::ranges::sort(ids_);
    hint_ = ids_.begin();
  }

  // Ids of successive calls grow: the next is mostly where the last one was found, or just behind it.
  bool contains(uint32_t id) {
    while (hint_ != ids_.end() && *hint_ < id && id - *hint_ <= kNear) ++hint_;
    if (hint_ == ids_.end() || *hint_ != id) hint_ = std::ranges::lower_bound(ids_, id);
    return hint_ != ids_.end() && *hint_ == id;
  }

 private:
  static constexpr uint32_t kNear = 16;
  std::vector<uint32_t> ids_;
  std::vector<uint32_t>::const_iterator hint_;
};

// Where a call without a record counts; null where it needs none.
uint64_t* count_of(CallsWithoutRecord& counts, const Thread& thread, const HostCall& call,
                   const std::string& name) {
  constexpr uint8_t kHostToHost = 0, kToDevice = 1, kOnDevice = 3;  // cudaMemcpyKind
  if (call.op_class == OpClass::Launch) return &counts.launches;
  if (call.op_class == OpClass::GraphLaunch) return &counts.graph_launches;
  if (name.find("Prefetch") != std::string::npos) return nullptr;
  const bool is_known = call.detail < thread.call_details.size();
  const bool is_batch = name.find("Batch") != std::string::npos;  // its sizes are in arrays that are not read
  if (!is_known || is_batch) return &counts.unclear;
  const trace::CallDetail& detail = thread.call_details[call.detail];
  if (detail.bytes() == 0) return nullptr;
  if (call.op_class == OpClass::Memset) return &counts.memsets;
  if (detail.direction() == kHostToHost) return nullptr;
  return detail.direction() >= kToDevice && detail.direction() <= kOnDevice ? &counts.copies
                                                                            : &counts.unclear;
}

}  // namespace

MatchCount match_launches(Process& process) {
  MatchCount count;
  const auto launches = launches_of(process);
  // Ids grow with time on both sides, so the next operation is mostly at the place where the last one was
  // found.
  auto hint = launches.begin();
  for (auto& device : process.devices) {
    for (auto& op : device.operations) {
      const bool is_kernel = op.kind == trace::RecordKind::Kernel;
      count.kernels += is_kernel;
      if (op.correlation == 0) continue;
      if (hint != launches.end() && hint->correlation < op.correlation) ++hint;
      if (hint == launches.end() || hint->correlation != op.correlation) {
        hint = std::lower_bound(launches.begin(), launches.end(), op.correlation,
                                [](const Launch& l, uint32_t id) { return l.correlation < id; });
      }
      if (hint == launches.end() || hint->correlation != op.correlation) continue;
      op.launch_thread = hint->thread;
      op.launch_call = hint->call;
      count.matched += is_kernel;
    }
  }
  return count;
}

void count_calls_without_record(Run& run, const Process& process) {
  RecordedIds recorded(process);
  // Other threads' launches as well: autograd's go into the graph that the training thread captures.
  const std::vector<TimeSpan> capturing = captures(run, process);
  for (const auto& thread : process.threads) {
    for (const auto& call : thread.calls) {
      if (call.correlation_or_object == 0 || !enqueues(call.op_class) || call.failed()) continue;
      if (recorded.contains(call.correlation_or_object)) continue;
      if (is_captured(capturing, call)) continue;
      const std::string& name = run.operations[call.operation].name;
      if (uint64_t* count = count_of(run.without_record, thread, call, name)) ++*count;
    }
  }
}

}  // namespace gpuwatch::model
