// SPDX-License-Identifier: Apache-2.0
#include "analyzer/timeline/perfetto.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyzer/io/printable.h"
#include "analyzer/timeline/perfetto_writer.h"
#include "analyzer/timeline/tracks.h"

namespace gpuwatch::timeline {
namespace {

using attribute::RankAttribution;
using model::Ns;

std::string clean(const std::string& text) {
  return io::printable(text, 512);
}

// Perfetto knows one machine: processes of other hosts get numbers beyond those that Linux gives (2^22).
class Hosts {
 public:
  uint32_t pid_of(const model::Process& process) {
    const auto [host, is_new] = numbers_.try_emplace(process.host, uint32_t(numbers_.size()));
    return (host->second << 22) + process.pid;
  }

 private:
  std::map<std::string, uint32_t> numbers_;
};

// One for each call that launched something, and one for each batch; unique for up to 2^14 processes.
Flow launch_flow(size_t process, uint32_t thread, uint32_t call) {
  return (Flow(1) << 63) | (Flow(process & 0x3fff) << 48) | (Flow(thread & 0xffff) << 32) | call;
}

Flow batch_flow(size_t process, size_t epoch, uint32_t batch) {
  return (Flow(1) << 62) | (Flow(process & 0x3fff) << 48) | (Flow(epoch & 0xffff) << 32) | batch;
}

class ProcessTracks {
 public:
  ProcessTracks(PerfettoWriter& writer, const model::Run& run, size_t index, uint32_t pid)
      : writer_(writer),
        run_(run),
        process_(run.processes[index]),
        index_(index),
        pid_(pid),
        track_(writer.add_process(pid, process_name(run, process_))) {}

  void write() {
    find_launches();
    find_batches();
    write_threads();
    for (size_t device = 0; device < process_.devices.size(); ++device) write_streams(device);
    write_batches();
  }

  // The steps, and what each moment of them went into.
  void write_rank(const RankAttribution& rank) {
    const bool has_device = rank.device != model::kNone;
    const std::string of = has_device ? fmt::format(" (GPU {})", process_.devices[rank.device].ordinal) : "";
    Lane steps(writer_, writer_.add_track(track_, "steps" + of));
    for (size_t i = 0; i < rank.steps.size(); ++i)
      steps.add({rank.steps[i].step.begin, rank.steps[i].step.end}, fmt::format("step {}", i));
    Lane causes(writer_, writer_.add_track(track_, "where a step goes" + of));
    for (const attribute::Slice& slice : rank.slices)
      causes.add({slice.begin, slice.end}, std::string(attribute::info(slice.category).words));
  }

 private:
  void find_launches() {
    for (const model::Thread& thread : process_.threads) first_ops_.emplace_back(thread.calls.size());
    for (const model::Device& device : process_.devices)
      for (const model::DeviceOp& op : device.operations)
        if (op.launch_call != model::kNone)
          if (const model::DeviceOp*& first = first_ops_[op.launch_thread][op.launch_call]; !first)
            first = &op;
  }

  // A batch leads to the next() that returned it: the call that began then on the consumer's thread.
  void find_batches() {
    for (size_t epoch = 0; epoch < process_.epochs.size(); ++epoch)
      for (const model::Batch& batch : process_.epochs[epoch].batches)
        if (batch.next.length() > 0)
          nexts_.try_emplace(batch.next.begin, batch_flow(index_, epoch, batch.index));
  }

  Flow flow_of(uint32_t thread, uint32_t call) const {
    if (first_ops_[thread][call]) return launch_flow(index_, thread, call);
    const model::HostCall& of = process_.threads[thread].calls[call];
    if (of.op_class != trace::OpClass::LoaderNext) return 0;
    const auto next = nexts_.find(of.begin);
    return next == nexts_.end() ? 0 : next->second;
  }

  void write_threads() {
    for (uint32_t i = 0; i < process_.threads.size(); ++i) {
      const model::Thread& thread = process_.threads[i];
      if (thread.calls.empty() && thread.ranges.empty()) continue;
      {
        Lane lane(writer_, writer_.add_thread(pid_, thread.tid, thread_role(process_, i)));
        for (uint32_t call = 0; call < thread.calls.size(); ++call) {
          const model::HostCall& of = thread.calls[call];
          lane.add({of.begin, of.end}, call_name(run_, of), flow_of(i, call));
        }
      }
      write_ranges(thread);
    }
  }

  void write_ranges(const model::Thread& thread) {
    const auto is_shown = [](const model::Range& range) { return !range.is_process && !range.is_mark; };
    if (std::ranges::none_of(thread.ranges, is_shown)) return;
    Lane lane(writer_, writer_.add_track(track_, fmt::format("NVTX ranges of thread {}", thread.tid)));
    for (const model::Range& range : thread.ranges) {
      const auto name = run_.texts.find(range.name);
      if (is_shown(range))
        lane.add({range.begin, range.end}, name == run_.texts.end() ? "?" : clean(name->second));
    }
  }

  void write_streams(size_t device) {
    for (const StreamLane& stream : stream_lanes(process_, device)) {
      Lane lane(writer_, writer_.add_track(track_, stream.name));
      for (const size_t i : stream.operations) {
        const model::DeviceOp& op = process_.devices[device].operations[i];
        // Of a graph the first operation alone has the arrow.
        const bool is_first =
            op.launch_call != model::kNone && first_ops_[op.launch_thread][op.launch_call] == &op;
        lane.add({op.begin, op.end}, operation_name(run_, op),
                 is_first ? launch_flow(index_, op.launch_thread, op.launch_call) : 0);
      }
    }
  }

  void write_batches() {
    for (const WorkerLane& worker : worker_lanes(process_)) {
      Lane lane(writer_, writer_.add_track(track_, worker.name));
      for (const auto& [epoch, batch] : worker.fetches)
        lane.add(batch->fetch, fmt::format("batch {}", batch->index),
                 batch->next.length() > 0 ? batch_flow(index_, epoch, batch->index) : 0);
    }
  }

  PerfettoWriter& writer_;
  const model::Run& run_;
  const model::Process& process_;
  size_t index_;
  uint32_t pid_;
  Track track_;
  // By thread and call, the first operation that it launched; null: none.
  std::vector<std::vector<const model::DeviceOp*>> first_ops_;
  std::map<Ns, Flow> nexts_;  // by the begin of the next() that returned a batch
};

}  // namespace

void write_perfetto(const model::Run& run, const std::vector<RankAttribution>& ranks, std::ostream& out) {
  PerfettoWriter writer(out);
  Hosts hosts;
  for (size_t i = 0; i < run.processes.size(); ++i) {
    ProcessTracks tracks(writer, run, i, hosts.pid_of(run.processes[i]));
    for (const RankAttribution& rank : ranks)
      if (rank.process == i) tracks.write_rank(rank);
    tracks.write();
  }
}

}  // namespace gpuwatch::timeline
