// SPDX-License-Identifier: Apache-2.0
// What a run directory says, decoded: processes, threads, host calls, device operations, loaders. Built once
// by build_run() (model/build.h) from the trace files and read-only afterwards; everything downstream
// (attribute, predict, advise, report) works on this and never sees the file format.
//
// All times are nanoseconds of the host's CLOCK_MONOTONIC, whatever clock a record was taken with.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libinject/trace/op_class.h"

namespace gpuwatch::model {

using Ns = int64_t;

inline constexpr uint32_t kNone = 0xffffffff;

struct TimeSpan {
  Ns begin = 0;
  Ns end = 0;
  Ns length() const { return end - begin; }
};

// One hooked call on a thread. Calls nest; a thread's calls are sorted by begin, outer before inner.
struct HostCall {
  Ns begin;
  Ns end;
  uint32_t correlation_or_object;  // Slot.a: correlation id of a CUDA call, loader id of a loader call
  uint32_t argument;               // Slot.b
  uint32_t detail = kNone;         // index into Thread's details of trace::detail_kind(op_class)
  uint16_t operation;              // index into Run::operations
  trace::OpClass op_class;
  uint8_t flags;
  bool failed() const { return flags & 8; }
};

struct Operation {
  std::string name;
  trace::OpClass op_class = trace::OpClass::Other;
};

// The call that a thread was in when its last record was published, outermost first.
struct OpenCall {
  Ns since;
  uint16_t operation;
  uint32_t object;
};

// Where the job's code was in a recorded call: a line for each frame, innermost first, "file:line function".
struct StackAt {
  Ns begin;       // of the call
  uint32_t text;  // id in Run::texts
};

// WorkerStack::pid of another thread of this process, which had the GIL while the training thread was
// sampled.
inline constexpr uint32_t kOfAnotherThread = 0;

// A worker's stack as the consumer saw it while it waited, or one of this process.
struct WorkerStack {
  Ns time;
  Ns weight;  // of the wait, that the sample stands for
  uint32_t text;
  uint32_t pid;             // of the worker; of the training thread its own, or kOfAnotherThread
  bool interprets = false;  // seen to execute Python, line after line; not known before format 1.9
};

// What the job itself reported as begun and ended (NVTX).
struct Range {
  Ns begin;
  Ns end;
  uint32_t name;    // ids in Run::texts, 0: none
  uint32_t domain;  // 0: the default one
  bool is_process =
      false;              // not of this thread alone: it may have been begun by another, and ranges may cross
  bool is_mark = false;   // a moment
  uint32_t category = 0;  // id of its name in Run::texts, 0: none, or one without a name
  std::optional<int64_t> payload = {};  // where it is a whole number
};

struct Thread {
  uint32_t tid = 0;
  std::string name;
  std::vector<HostCall> calls;
  std::vector<trace::CallDetail> call_details;
  std::vector<trace::EventDetail> event_details;
  std::vector<trace::CpuDetail> cpu_details;
  std::vector<trace::IoDetail> io_details;
  std::vector<trace::ShapeDetail> shape_details;
  std::vector<StackAt> stacks;                    // sorted by begin
  std::vector<WorkerStack> worker_stacks;         // sorted by time
  std::vector<trace::IoCounts> io_counts;         // of fetches; see io_counts_of()
  std::vector<uint32_t> io_counts_of_cpu_detail;  // by index into cpu_details; kNone: none
  std::vector<Range> ranges;                      // sorted by begin, outer before inner
  std::vector<OpenCall> open_calls;               // empty when the thread was in none
};

// The detail of a call, null where it has none or one of another kind.
inline const trace::CallDetail* call_detail_of(const Thread& thread, const HostCall& call) {
  const bool has_one = detail_kind(call.op_class) == trace::DetailKind::kCall;
  return has_one && call.detail < thread.call_details.size() ? &thread.call_details[call.detail] : nullptr;
}
inline const trace::EventDetail* event_detail_of(const Thread& thread, const HostCall& call) {
  const bool has_one = detail_kind(call.op_class) == trace::DetailKind::kEvent;
  return has_one && call.detail < thread.event_details.size() ? &thread.event_details[call.detail] : nullptr;
}

// What both of them say: low bits of the stream's handle; the return address, 0 unknown.
inline std::optional<uint32_t> stream_of(const Thread& thread, const HostCall& call) {
  if (const auto* detail = call_detail_of(thread, call)) return detail->stream();
  if (const auto* detail = event_detail_of(thread, call)) return detail->stream();
  return std::nullopt;
}
inline uint64_t caller_of(const Thread& thread, const HostCall& call) {
  if (const auto* detail = call_detail_of(thread, call)) return detail->caller();
  if (const auto* detail = event_detail_of(thread, call)) return detail->caller();
  return 0;
}

// What a fetch read, null where that was not counted.
inline const trace::IoCounts* io_counts_of(const Thread& thread, const HostCall& call) {
  if (call.detail >= thread.io_counts_of_cpu_detail.size()) return nullptr;
  const uint32_t index = thread.io_counts_of_cpu_detail[call.detail];
  return index == kNone ? nullptr : &thread.io_counts[index];
}

struct Kernel {
  std::string name;
  uint32_t grid[3] = {0, 0, 0};
  uint32_t block[3] = {0, 0, 0};
  bool is_communication = false;  // a NCCL kernel
  // False where the trace keeps the name alone: of a kernel with very many shapes, the later ones.
  bool has_shape() const { return grid[0] != 0; }
  double blocks() const { return double(grid[0]) * grid[1] * grid[2]; }
};

// One operation on the device. Sorted by begin within Device::operations.
struct DeviceOp {
  Ns begin;
  Ns end;
  uint64_t bytes = 0;
  uint32_t correlation = 0;
  uint32_t kernel = kNone;  // index into Run::kernels
  uint32_t launch_thread =
      kNone;  // index into Process::threads of the call that launched it, kNone if unmatched
  uint32_t launch_call = kNone;  // index into that thread's calls
  uint16_t stream = 0;           // index into Process::streams
  trace::RecordKind kind;
  uint8_t flags;  // trace::kSourcePageable and so on
};

struct Stream {
  uint32_t device = 0;
  uint32_t context = 0;
  uint32_t id = 0;
};

struct Device {
  uint32_t ordinal = 0;
  std::string name;
  int compute_major = 0, compute_minor = 0;
  int multiprocessors = 0;
  uint64_t memory_bytes = 0;
  int driver_version = 0, runtime_version = 0;
  bool is_amd = false;  // compute_major and compute_minor are then of its gfx number, not NVIDIA's
  std::vector<DeviceOp> operations;
  bool is_nvidia() const { return !is_amd; }
};

// One batch of one epoch over a loader. Times that were not seen are 0.
struct Batch {
  uint32_t index = 0;       // within the epoch
  uint32_t worker = kNone;  // index into LoaderEpoch::workers
  Ns sent = 0;              // index handed to the worker
  TimeSpan fetch;           // worker's (or, without workers, the training thread's) __getitem__ and collate
  Ns collate_ns = 0;
  Ns fetch_cpu_ns = 0;
  Ns fetch_run_delay_ns = 0;
  Ns fetch_blocked_ns = 0;                  // inside hooked reads, opens, stats of the fetch
  Ns fetch_io_ns = 0;                       // the same with calls too short to be recorded; 0 if not counted
  uint64_t bytes_read = 0, disk_bytes = 0;  // disk_bytes: from storage, not from the page cache
  uint32_t opens = 0, reads = 0, major_faults = 0, thread_count = 0;
  // Elements of the samples that were looked at, of the batch made from all, of the longest; 0 if not known.
  uint64_t sample_elements = 0, padded_elements = 0, longest_sample = 0;
  uint32_t samples_seen = 0, samples = 0;
  uint32_t tensors = 0;  // in the batch, and their bytes; 0: not known
  uint64_t bytes = 0;
  Ns received = 0;
  TimeSpan pinned;  // in the pin thread
  TimeSpan next;    // the consumer's next() that returned this batch
};

struct Worker {
  uint32_t index = 0;
  uint32_t pid = 0;
  uint32_t process = kNone;  // index into Run::processes, kNone if it left no trace
  Ns start = 0;              // its loop began
};

// One epoch over one loader by one consumer thread.
struct LoaderEpoch {
  uint32_t loader = 0;  // index into Process::loaders
  TimeSpan start;       // iterator construction or reset
  std::vector<Worker> workers;
  std::vector<Batch> batches;
};

struct Loader {
  uint32_t id = 0;
  std::string class_name, dataset, location, start_method, sampler;
  int num_workers = -1, batch_size = -1, prefetch_factor = -1, batches = -1;
  int pin_memory = -1, persistent_workers = -1, in_order = -1, drop_last = -1;
  std::string framework = "torch",
              code;    // "file:line function" of the dataset's __getitem__ or __iter__
  std::string stages;  // of a tf.data pipeline: "file:line" of each stage that `dataset` names, a line each
  bool repeats_per_worker = false;  // an IterableDataset without code that asks which worker it runs in
  uint32_t instance = 0;            // further iterator over the same loader, living beside the first
  uint32_t remade = 0;  // further DataLoader objects that the script made in its place, one after the other
  uint32_t thread = kNone;  // index into Process::threads: the consumer
};

// What tf.data had counted of a stage by then, since its iterator began (trace::PipelineStage).
struct StageReading {
  Ns time = 0;
  uint32_t loader = 0;  // Loader::id
  uint32_t stage = 0;   // 0 hands out the batches
  uint32_t feeds = 0;   // the stage that it feeds; of stage 0 itself
  std::string name;     // as tf.data's model has it: "MapAndBatch"
  uint64_t elements = 0, bytes_produced = 0;
  uint64_t bytes_consumed = 0;  // without what it holds in its buffer
  Ns processing_ns = 0;         // of its threads, without its inputs: wall clock
};

// What a source recorded, and in words for people.
struct SourceStatus {
  trace::SourceState state = trace::SourceState::Unknown;
  std::string text;
  std::string holder;  // who had it while it was held or yielded
  bool is_on() const { return state == trace::SourceState::On; }
};

enum class EndState { kExited, kKilledOrRunning, kUnknown };

struct MachineSample {  // trace::Sample with its time mapped
  Ns time;
  Ns cpu_ns, children_cpu_ns, run_delay_ns, throttled_ns, cpu_total_ns, cpu_idle_ns, cpu_steal_ns;
  uint64_t major_faults, rss_bytes;
  Ns children_run_delay_ns = 0, psi_cpu_ns = 0, psi_memory_ns = 0, psi_io_ns = 0, disk_busy_ns = 0;
  uint64_t throttled_count = 0, memory_available_bytes = 0, swap_in_bytes = 0, shm_used_bytes = 0,
           disk_read_bytes = 0;
  uint32_t children_threads = 0, cpu = 0, cpu_mhz = 0;
  Ns other_children_cpu_ns = 0;
  uint64_t minor_faults = 0, children_minor_faults = 0;
  Ns system_ns = 0, children_system_ns = 0;
  Ns ended_children_cpu_ns = 0;  // 0 before format 1.12
};

// What NVML said of a device (trace::DeviceSample); 0 where it told nothing.
struct DeviceSample {
  Ns time = 0;
  uint32_t device = 0;
  uint32_t sm_clock_mhz = 0, sm_clock_max_mhz = 0, power_mw = 0, power_limit_mw = 0, temperature_c = 0;
  uint32_t pcie_generation = 0, pcie_generation_max = 0, pcie_width = 0, pcie_width_max = 0;
  uint32_t utilization_percent = 0, other_processes = 0;
  uint64_t throttle_reasons = 0, memory_used_bytes = 0, memory_bytes = 0, other_memory_bytes = 0;
  int numa_node = -1;
  uint32_t power_limit_default_mw = 0;
  std::optional<uint32_t> other_utilization_percent = {};  // where the other processes are known one by one
  bool is_unused = false;  // visible, and not used by this process: memory, utilization, processes only
};

struct Mount {
  std::string point, type, source;
  uint64_t device = 0;  // st_dev
  bool is_remote = false;
};

struct ModuleRange {
  uint64_t base = 0, size = 0;
  std::string path;
};

struct Process {
  uint32_t pid = 0, parent_pid = 0;
  uint32_t parent = kNone;  // index into Run::processes
  std::string host, script, executable, user;
  int rank = -1, local_rank = -1, world_size = -1;
  uint32_t cpu_count = 0;
  Ns start = 0, last_seen = 0;  // first and last record
  int64_t start_realtime_ns = 0;
  EndState end_state = EndState::kUnknown;
  bool is_running = false;  // seen alive on this machine when the trace was read
  Ns alive_until = 0;       // last_seen, or, if it is running, when the trace was read
  int exit_code = 0;
  std::vector<Thread> threads;
  std::vector<Device> devices;
  std::vector<Stream> streams;
  std::vector<Loader> loaders;
  std::vector<LoaderEpoch> epochs;
  std::vector<MachineSample> machine_samples;
  std::vector<DeviceSample> device_samples;
  std::vector<StageReading> stage_readings;
  std::vector<Mount> mounts;
  std::vector<ModuleRange> modules;
  std::map<std::string, SourceStatus> sources;      // "cuda" -> On
  std::map<std::string, std::string> facts;         // "torch" -> "2.13.0+cpu"
  std::map<std::string, uint64_t> dropped_records;  // reason -> records
  std::map<std::string, uint64_t> incomplete;       // what is recorded without a part -> how many
  std::vector<TimeSpan> unobserved;                 // in time order: when nobody told us what the devices did
  uint32_t training_thread = kNone;      // where the optimizer steps, else who consumes or launches
  std::string imported_from;             // another profiler whose trace this is; "" for our own
  std::vector<TimeSpan> reported_steps;  // of the training thread, by that profiler; in time order
  uint32_t worker_of = kNone;            // index into Run::processes of the process it loads data for
  bool is_rank() const { return worker_of == kNone && training_thread != kNone; }
};

// Calls made while CUPTI was ours that must leave a device record, and have none: by what they asked for.
struct CallsWithoutRecord {
  uint64_t launches = 0, graph_launches = 0, copies = 0, memsets = 0;
  // Copies and memsets of which it is not known that they need a record: their size, or where they go, was
  // not seen. Nothing, and what stays on the host, is moved without one.
  uint64_t unclear = 0;
  uint64_t all_launches() const { return launches + graph_launches; }
  uint64_t all() const { return launches + graph_launches + copies + memsets; }
};

struct Run {
  std::string directory, run_id;
  std::vector<Process> processes;
  std::vector<Operation> operations;  // merged over all files
  std::vector<Kernel> kernels;
  std::map<uint32_t, std::string>
      texts;  // for IoDetail.path, CallDetail.line: ids made unique over all files
  uint64_t events = 0;
  uint64_t bytes = 0;
  uint64_t kernels_total = 0, kernels_matched = 0;
  CallsWithoutRecord without_record;
  size_t device_clock_steps = 0;
  double device_units_per_ns = 1;    // not 1: device times were another tool's
  Ns clock_error_ns = 0;             // worst residual between device and host clocks, 0 without a device
  std::vector<std::string> damage;   // one sentence for each thing in the files that could not be read
  std::vector<std::string> stopped;  // one sentence for each file whose recording stopped early
  std::vector<std::string> stopped_children;  // and where it did so in child processes alone
  std::string other_runs;                     // a sentence, where the folder holds more than this one
};

}  // namespace gpuwatch::model
