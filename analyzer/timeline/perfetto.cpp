// SPDX-License-Identifier: Apache-2.0
#include "analyzer/timeline/perfetto.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "analyzer/io/printable.h"
#include "analyzer/report/facts.h"
#include "analyzer/timeline/perfetto_writer.h"

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

std::string process_name(const model::Run& run, const model::Process& process) {
  if (process.worker_of != model::kNone)
    return fmt::format("DataLoader worker of {}", run.processes[process.worker_of].pid);
  const std::string script = clean(report::script_name(process));
  return process.rank < 0 ? script : fmt::format("rank {}: {}", process.rank, script);
}

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
      const std::string role = i == process_.training_thread ? "training thread" : clean(thread.name);
      {
        Lane lane(writer_, writer_.add_thread(pid_, thread.tid, role));
        for (uint32_t call = 0; call < thread.calls.size(); ++call) {
          const model::HostCall& of = thread.calls[call];
          lane.add({of.begin, of.end}, clean(run_.operations.at(of.operation).name), flow_of(i, call));
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

  std::string name_of(const model::DeviceOp& op) const {
    if (op.kernel != model::kNone) return clean(run_.kernels.at(op.kernel).name);
    const char* const kind = trace::EnumNameRecordKind(op.kind);
    return op.bytes > 0 ? fmt::format("{} {} bytes", kind, op.bytes) : kind;
  }

  void write_streams(size_t device) {
    const auto& operations = process_.devices[device].operations;
    std::map<uint16_t, std::vector<size_t>> by_stream;
    for (size_t i = 0; i < operations.size(); ++i) by_stream[operations[i].stream].push_back(i);
    for (const auto& [stream, of_stream] : by_stream) {
      const uint32_t id = stream < process_.streams.size() ? process_.streams[stream].id : stream;
      write_stream(device, fmt::format("GPU {} stream {}", process_.devices[device].ordinal, id), of_stream);
    }
  }

  // Kernels of a CUDA graph run beside each other and are recorded as of one stream: then it has several
  // lanes.
  void write_stream(size_t device, const std::string& name, const std::vector<size_t>& of_stream) {
    std::vector<std::pair<Ns, std::unique_ptr<Lane>>> lanes;  // with the end of the last operation
    for (const size_t i : of_stream) {
      const model::DeviceOp& op = process_.devices[device].operations[i];
      auto lane = std::ranges::find_if(lanes, [&](const auto& of) { return of.first <= op.begin; });
      if (lane == lanes.end()) {
        const std::string number = lanes.empty() ? "" : fmt::format(", lane {}", lanes.size() + 1);
        lane = lanes.insert(lane,
                            {0, std::make_unique<Lane>(writer_, writer_.add_track(track_, name + number))});
      }
      // Of a graph the first operation alone has the arrow.
      const bool is_first =
          op.launch_call != model::kNone && first_ops_[op.launch_thread][op.launch_call] == &op;
      lane->second->add({op.begin, op.end}, name_of(op),
                        is_first ? launch_flow(index_, op.launch_thread, op.launch_call) : 0);
      lane->first = op.end;
    }
  }

  // One lane for each worker of each loader, over all epochs: a worker may live for one of them only.
  void write_batches() {
    struct Fetch {
      model::TimeSpan span;
      std::string name;
      Flow flow;
    };
    std::map<std::pair<uint32_t, uint32_t>, std::vector<Fetch>> lanes;
    for (size_t i = 0; i < process_.epochs.size(); ++i)
      for (const model::Batch& batch : process_.epochs[i].batches)
        if (batch.worker != model::kNone && batch.fetch.length() > 0)
          lanes[{process_.epochs[i].loader, batch.worker}].push_back(
              {batch.fetch, fmt::format("batch {}", batch.index),
               batch.next.length() > 0 ? batch_flow(index_, i, batch.index) : 0});
    for (auto& [of, fetches] : lanes) {
      std::ranges::stable_sort(fetches, {}, [](const Fetch& fetch) { return fetch.span.begin; });
      Lane lane(writer_,
                writer_.add_track(track_, fmt::format("DataLoader {} worker {}", of.first, of.second)));
      for (const Fetch& fetch : fetches) lane.add(fetch.span, fetch.name, fetch.flow);
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
