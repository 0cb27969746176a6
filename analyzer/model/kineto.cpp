// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/kineto.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "analyzer/io/kineto_file.h"
#include "analyzer/io/printable.h"
#include "analyzer/io/user_error.h"
#include "analyzer/model/clock.h"
#include "analyzer/model/kineto_files.h"
#include "analyzer/model/kineto_names.h"
#include "analyzer/model/loaders.h"
#include "analyzer/model/match.h"
#include "analyzer/model/quantile.h"
#include "analyzer/model/records.h"
#include "analyzer/model/roles.h"
#include "analyzer/model/tables.h"

namespace gpuwatch::model {
namespace {

using io::KinetoCategory;
using io::KinetoEvent;
using io::KinetoTrace;
using trace::OpClass;
using trace::RecordKind;

constexpr size_t kMostOperations = 0xffff, kMostStreams = 0xffff;  // what an index of 16 bits leaves
constexpr size_t kMostDevices = 256;                               // each is a row of the report
constexpr Ns kFurthestNs = kFarNs / 4;                             // 104 days from the middle of a run
constexpr Ns kFirstNs = 1'000'000'000;                             // 0 is "not seen" in the model

bool is_device_work(KinetoCategory category) {
  return category == KinetoCategory::kKernel || category == KinetoCategory::kMemcpy ||
         category == KinetoCategory::kMemset;
}

// Names of all files get one entry each.
class Names {
 public:
  explicit Names(Run& run) : run_(run) {}
  uint16_t operation(const std::string& name, OpClass op_class);
  uint32_t text(const std::string& name);
  uint32_t kernel(const std::string& name, const KinetoEvent& event);

 private:
  Run& run_;
  std::unordered_map<std::string, uint16_t> operations_;
  std::unordered_map<std::string, uint32_t> texts_;
  std::map<std::tuple<std::string, std::array<uint32_t, 3>, std::array<uint32_t, 3>>, uint32_t> kernels_;
};

uint16_t Names::operation(const std::string& name, OpClass op_class) {
  const auto [known, is_new] = operations_.try_emplace(name, static_cast<uint16_t>(run_.operations.size()));
  if (!is_new) return known->second;
  if (run_.operations.size() == kMostOperations)
    known->second = static_cast<uint16_t>(kMostOperations - 1);
  else
    run_.operations.push_back({name, op_class});
  return known->second;
}

uint32_t Names::text(const std::string& name) {
  const auto [known, is_new] = texts_.try_emplace(name, static_cast<uint32_t>(run_.texts.size()) + 1);
  if (is_new) run_.texts.emplace(known->second, name);
  return known->second;
}

uint32_t Names::kernel(const std::string& name, const KinetoEvent& event) {
  const auto [known, is_new] =
      kernels_.try_emplace({name, event.grid, event.block}, static_cast<uint32_t>(run_.kernels.size()));
  if (!is_new) return known->second;
  Kernel& kernel = run_.kernels.emplace_back();
  kernel.name = name;
  std::ranges::copy(event.grid, kernel.grid);
  std::ranges::copy(event.block, kernel.block);
  kernel.is_communication = is_communication(name);
  return known->second;
}

// One file's events become one process.
class ProcessImport {
 public:
  ProcessImport(const KinetoTrace& trace, Names& names, Run& run, Ns origin)
      : trace_(trace), names_(names), run_(run), origin_(origin) {}
  void fill(Process& process);

 private:
  TimeSpan time_of(const KinetoEvent& event) const;
  void describe(Process& process) const;
  Thread& thread(Process& process, int64_t id);
  uint16_t stream(Process& process, const KinetoEvent& event);
  Device& device(Process& process, uint32_t ordinal);
  void add_device_work(Process& process, const KinetoEvent& event);
  void add_call(Process& process, const KinetoEvent& event);
  void add_annotation(Process& process, const KinetoEvent& event);
  void add_operator(Process& process, const KinetoEvent& event);
  void find_reported_steps(Process& process);
  void note_calls();
  void note_what_is_missing(Process& process) const;
  KinetoEvent with_grid(const KinetoEvent& kernel) const;
  void note_streams(Process& process) const;

  const KinetoTrace& trace_;
  Names& names_;
  Run& run_;
  Ns origin_;
  std::unordered_map<int64_t, size_t> threads_;
  std::unordered_map<uint32_t, size_t> devices_;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, uint16_t> streams_;
  std::unordered_map<uint32_t, const KinetoEvent*> by_correlation_;      // what a call did, or waited for
  std::unordered_map<uint32_t, const KinetoEvent*> launches_with_grid_;  // by correlation
  bool has_hip_calls_ = false;
  std::map<std::pair<size_t, std::string>, uint32_t> loaders_;  // by thread and class
  std::map<size_t, std::vector<TimeSpan>> steps_;               // by thread
  uint64_t dropped_ = 0;
};

TimeSpan ProcessImport::time_of(const KinetoEvent& event) const {
  const Ns begin = event.begin_ns + trace_.base_ns - origin_;
  return {begin, begin + std::min(event.length_ns, kFurthestNs)};
}

void ProcessImport::describe(Process& process) const {
  process.pid = trace_.pid;
  process.host = trace_.host;
  process.executable = trace_.process_name;
  process.rank = trace_.rank;
  process.world_size = trace_.world_size;
  process.imported_from = "torch.profiler";
  process.facts.try_emplace("torch", "");  // its version is not in the file
  process.sources["torch.profiler"] = {trace::SourceState::On, "on", ""};
  for (const char* absent : {"io", "python", "system"})
    process.sources[absent] = {trace::SourceState::Absent, "not in a trace of torch.profiler", ""};
  if (!trace_.nccl_version.empty()) process.facts["nccl"] = trace_.nccl_version;
}

Thread& ProcessImport::thread(Process& process, int64_t id) {
  const auto [known, is_new] = threads_.try_emplace(id, process.threads.size());
  if (is_new) {
    Thread& added = process.threads.emplace_back();
    added.tid = static_cast<uint32_t>(id);
    const auto name = trace_.thread_names.find(id);
    if (name != trace_.thread_names.end()) added.name = name->second;
  }
  return process.threads[known->second];
}

uint16_t ProcessImport::stream(Process& process, const KinetoEvent& event) {
  const auto [known, is_new] = streams_.try_emplace({event.device, event.context, event.stream},
                                                    static_cast<uint16_t>(process.streams.size()));
  if (!is_new) return known->second;
  if (process.streams.size() < kMostStreams)
    process.streams.push_back({event.device, event.context, event.stream});
  else
    known->second = static_cast<uint16_t>(kMostStreams - 1);
  return known->second;
}

Device& ProcessImport::device(Process& process, uint32_t ordinal) {
  const auto [known, is_new] = devices_.try_emplace(ordinal, process.devices.size());
  if (is_new) {
    Device& added = process.devices.emplace_back();
    added.ordinal = ordinal;
    added.is_amd = has_hip_calls_;
    added.runtime_version = trace_.runtime_version;
    added.driver_version = trace_.driver_version;
    const auto told = std::ranges::find(trace_.devices, ordinal, &io::KinetoDevice::id);
    if (told != trace_.devices.end()) {
      added.name = told->name.empty() ? told->architecture : told->name;  // some AMD GPUs tell no name
      added.is_amd |= told->is_amd();
      added.compute_major = told->compute_major;
      added.compute_minor = told->compute_minor;
      added.multiprocessors = told->multiprocessors;
      added.memory_bytes = told->memory_bytes;
    }
  }
  return process.devices[known->second];
}

void ProcessImport::note_calls() {
  for (const KinetoEvent& event : trace_.events) {
    if (event.category != KinetoCategory::kCudaCall) continue;
    has_hip_calls_ |= is_hip_call(trace_.names[event.name]);
    if (event.correlation != 0 && event.grid[0] != 0) launches_with_grid_.emplace(event.correlation, &event);
  }
}

// ROCm's profiler tells the grid of the launch, NVIDIA's that of the kernel.
KinetoEvent ProcessImport::with_grid(const KinetoEvent& kernel) const {
  KinetoEvent result = kernel;
  const auto launch = launches_with_grid_.find(kernel.correlation);
  if (launch == launches_with_grid_.end() || kernel.correlation == 0) return result;
  result.grid = launch->second->grid;
  result.block = launch->second->block;
  if (!counts_threads(trace_.names[launch->second->name])) return result;
  for (size_t i = 0; i < result.grid.size(); ++i) {
    const uint32_t threads = std::max(1u, result.block[i]);
    result.grid[i] = result.grid[i] / threads + (result.grid[i] % threads != 0);
  }
  return result;
}

void ProcessImport::add_device_work(Process& process, const KinetoEvent& event) {
  if (devices_.size() == kMostDevices && !devices_.contains(event.device)) {
    ++dropped_;
    return;
  }
  const TimeSpan time = time_of(event);
  const std::string& name = trace_.names[event.name];
  DeviceOp op{.begin = time.begin,
              .end = time.end,
              .bytes = event.bytes,
              .correlation = event.correlation,
              .kind = RecordKind::Memset,
              .flags = 0};
  op.stream = stream(process, event);
  if (event.category == KinetoCategory::kKernel) {
    op.kind = RecordKind::Kernel;
    op.kernel = names_.kernel(name, with_grid(event));
  } else if (event.category == KinetoCategory::kMemcpy) {
    const KinetoCopy copy = kineto_copy(name);
    op.kind = copy.kind;
    op.flags = copy.flags;
  }
  device(process, event.device).operations.push_back(op);
}

void ProcessImport::add_call(Process& process, const KinetoEvent& event) {
  const TimeSpan time = time_of(event);
  const std::string& name = trace_.names[event.name];
  HostCall call{.begin = time.begin,
                .end = time.end,
                .correlation_or_object = event.correlation,
                .argument = 0,
                .operation = 0,
                .op_class = cuda_call_class(name),
                .flags = 0};
  if (call.op_class == OpClass::Other) return;
  call.operation = names_.operation(name, call.op_class);
  thread(process, event.thread).calls.push_back(call);
}

void ProcessImport::add_annotation(Process& process, const KinetoEvent& event) {
  const TimeSpan time = time_of(event);
  const std::string& name = trace_.names[event.name];
  Thread& on = thread(process, event.thread);
  on.ranges.push_back({.begin = time.begin, .end = time.end, .name = names_.text(name), .domain = 0});
  const size_t index = threads_.at(event.thread);
  const KinetoMark mark = kineto_mark(name);
  if (mark == KinetoMark::kStep) steps_[index].push_back(time);
  HostCall call{.begin = time.begin,
                .end = time.end,
                .correlation_or_object = 0,
                .argument = 0,
                .operation = 0,
                .op_class = class_of_mark(mark),
                .flags = 0};
  if (call.op_class == OpClass::Other) return;
  call.operation = names_.operation(name, call.op_class);
  if (mark == KinetoMark::kLoaderNext) {
    const auto [loader, is_new] =
        loaders_.try_emplace({index, name}, static_cast<uint32_t>(process.loaders.size()) + 1);
    if (is_new) process.loaders.push_back(described_loader(loader->second, name));
    call.correlation_or_object = loader->second;
  } else if (mark == KinetoMark::kOptimizerStep) {
    call.correlation_or_object = names_.text(name);
  }
  on.calls.push_back(call);
}

// A call that says nothing of what its thread did, but that it was the framework.
void ProcessImport::add_operator(Process& process, const KinetoEvent& event) {
  const TimeSpan time = time_of(event);
  HostCall call{.begin = time.begin,
                .end = time.end,
                .correlation_or_object = 0,
                .argument = 0,
                .operation = names_.operation(trace_.names[event.name], OpClass::Other),
                .op_class = OpClass::Other,
                .flags = 0};
  thread(process, event.thread).calls.push_back(call);
}

void ProcessImport::find_reported_steps(Process& process) {
  for (auto& [index, steps] : steps_) {
    if (steps.size() <= process.reported_steps.size()) continue;
    std::ranges::sort(steps, {}, &TimeSpan::begin);
    process.reported_steps = steps;
    process.training_thread = static_cast<uint32_t>(index);
  }
}

// A call's stream is told by the device's record of what it launched or waited for. Many traces have no
// records of synchronisations: then cudaStreamSynchronize right behind a copy waits for it, as PyTorch's
// copies do.
void ProcessImport::note_streams(Process& process) const {
  for (Thread& thread : process.threads) {
    std::unordered_map<uint32_t, uint32_t> batches;  // by loader
    std::optional<uint32_t> copied_on;               // stream of the copy just before
    for (HostCall& call : thread.calls) {
      if (call.op_class == OpClass::LoaderNext) call.argument = batches[call.correlation_or_object]++;
      const trace::DetailKind kind = detail_kind(call.op_class);
      if (kind != trace::DetailKind::kCall && kind != trace::DetailKind::kEvent) continue;
      const auto record = by_correlation_.find(call.correlation_or_object);
      std::optional<uint32_t> on;
      KinetoCopy copy;
      uint64_t bytes = 0;
      if (record != by_correlation_.end() && call.correlation_or_object != 0) {
        on = record->second->stream;
        bytes = record->second->bytes;
        if (call.op_class == OpClass::Copy) copy = kineto_copy(trace_.names[record->second->name]);
      } else if (run_.operations[call.operation].name.find("StreamSynchronize") != std::string::npos) {
        on = copied_on;
      }
      if (call.op_class != OpClass::Event) copied_on = call.op_class == OpClass::Copy ? on : std::nullopt;
      if (!on) continue;
      if (kind == trace::DetailKind::kEvent) {
        call.detail = static_cast<uint32_t>(thread.event_details.size());
        thread.event_details.emplace_back(0, 0, *on, 0);  // its event is not in the trace
      } else {
        call.detail = static_cast<uint32_t>(thread.call_details.size());
        thread.call_details.emplace_back(bytes, 0, *on, copy.direction, copy.memory, 0);
      }
    }
  }
}

void ProcessImport::note_what_is_missing(Process& process) const {
  for (const auto& [begin, end] : trace_.gaps) {
    const TimeSpan gap{begin + trace_.base_ns - origin_, end + trace_.base_ns - origin_};
    if (gap.begin > 0 && gap.length() > 0) process.unobserved.push_back(gap);
  }
  const bool has_calls =
      std::ranges::any_of(process.threads, [](const Thread& t) { return !t.calls.empty(); });
  if (has_calls || process.devices.empty()) return;
  process.sources["host calls"] = {trace::SourceState::Absent, "not in this trace of torch.profiler", ""};
  if (process.threads.empty()) process.threads.emplace_back();  // the one that trained, whoever it was
  process.training_thread = 0;
}

void ProcessImport::fill(Process& process) {
  describe(process);
  note_calls();
  for (const KinetoEvent& event : trace_.events) {
    if (std::abs(event.begin_ns + trace_.base_ns - origin_) > 3 * kFurthestNs) {
      ++dropped_;
      continue;
    }
    if (event.correlation != 0 &&
        (is_device_work(event.category) || event.category == KinetoCategory::kDeviceSync))
      by_correlation_.emplace(event.correlation, &event);
    if (is_device_work(event.category)) add_device_work(process, event);
    if (event.category == KinetoCategory::kCudaCall) add_call(process, event);
    if (event.category == KinetoCategory::kAnnotation) add_annotation(process, event);
    if (event.category == KinetoCategory::kOperator) add_operator(process, event);
  }
  find_reported_steps(process);
  for (Device& device : process.devices) std::ranges::stable_sort(device.operations, {}, &DeviceOp::begin);
  for (Thread& thread : process.threads) {
    order_calls(thread.calls);
    order_ranges(thread.ranges);
  }
  note_streams(process);
  note_what_is_missing(process);
  note_extent(process);
  process.alive_until = process.last_seen;
  process.start_realtime_ns = origin_ + process.start;
  if (dropped_ + trace_.events_without_time > 0)
    run_.damage.push_back(fmt::format(
        "{} events have no time, one far from all others, or a device too many; they are left out",
        dropped_ + trace_.events_without_time));
}

// The middle of all events, so that one with a wrong time moves nothing.
Ns middle_of(const std::vector<KinetoTrace>& traces) {
  std::vector<Ns> begins;
  for (const KinetoTrace& trace : traces)
    for (const KinetoEvent& event : trace.events) begins.push_back(event.begin_ns + trace.base_ns);
  return begins.empty() ? 0 : median(std::move(begins));
}

Ns origin_of(const std::vector<KinetoTrace>& traces) {
  const Ns middle = middle_of(traces);
  Ns first = middle;
  for (const KinetoTrace& trace : traces) {
    for (const KinetoEvent& event : trace.events) {
      const Ns begin = event.begin_ns + trace.base_ns;
      if (middle - begin <= kFurthestNs) first = std::min(first, begin);
    }
  }
  return first - kFirstNs;
}

KinetoTrace read_checked(const std::string& path) {
  KinetoTrace trace = io::read_kineto(path);
  const bool has_device = std::ranges::any_of(
      trace.events, [](const KinetoEvent& event) { return is_device_work(event.category); });
  if (!has_device)
    throw io::UserError(
        fmt::format("{} has {} events and none of a device; profile with activities=[ProfilerActivity.CPU, "
                    "ProfilerActivity.CUDA], or record the job with gpuwatch run",
                    io::printable(path), trace.events_read));
  return trace;
}

// One that cannot be read beside others that can is a sentence.
std::vector<KinetoFile> read_files(const io::TraceSet& traces, Run& run) {
  std::vector<KinetoFile> files;
  std::optional<io::UserError> first_error;
  for (const std::string& path : traces.files) {
    try {
      files.push_back({path, read_checked(path)});
    } catch (const io::UserError& error) {
      if (!first_error) first_error = error;
      run.damage.push_back(error.what());
    }
  }
  if (files.empty() && first_error) throw *first_error;
  return files;
}

}  // namespace

Run build_kineto_run(const io::TraceSet& traces) {
  Run run;
  run.directory = traces.directory;
  std::vector<KinetoTrace> read = join_files(read_files(traces, run));
  for (const KinetoTrace& trace : read) {
    run.bytes += trace.file_bytes;
    run.events += trace.events_read;
    if (trace.resolution_ns > 1)  // begin and length are cut off, each
      run.clock_error_ns = std::max<Ns>(run.clock_error_ns, 2 * trace.resolution_ns);
  }
  const Ns origin = origin_of(read);
  Names names(run);
  run.processes.resize(read.size());
  for (size_t i = 0; i < read.size(); ++i) {
    Process& process = run.processes[i];
    ProcessImport(read[i], names, run, origin).fill(process);
    read[i] = {};  // events of one file at a time are enough
    const MatchCount count = match_launches(process);
    count_calls_without_record(run, process);
    run.kernels_total += count.kernels;
    run.kernels_matched += count.matched;
  }
  LoaderEpochs epochs(run);
  for (uint32_t i = 0; i < run.processes.size(); ++i) epochs.build(i, {});
  std::vector<uint32_t> stepped;  // the thread that the profiler was stepped on trains, whoever launches most
  for (const Process& process : run.processes) stepped.push_back(process.training_thread);
  find_training_threads(run);
  for (size_t i = 0; i < stepped.size(); ++i)
    if (stepped[i] != kNone) run.processes[i].training_thread = stepped[i];
  return run;
}

}  // namespace gpuwatch::model
