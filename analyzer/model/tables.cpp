// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "analyzer/io/table_frame.h"
#include "analyzer/io/user_error.h"
#include "analyzer/model/kernel_class.h"
#include "libinject/trace/loss_reason.h"

namespace gpuwatch::model {
namespace {

// Format 1.2 and older told a source's state in words alone: these are the ones that conclusions rest on.
void read_text_of_1_2(SourceStatus& status) {
  constexpr std::pair<std::string_view, trace::SourceState> kHolders[] = {
      {"held by ", trace::SourceState::Held}, {"yielded to ", trace::SourceState::Yielded}};
  if (status.text == "on") status.state = trace::SourceState::On;
  for (const auto& [words, state] : kHolders) {
    if (!status.text.starts_with(words)) continue;
    status.state = state;
    status.holder = status.text.substr(words.size());
  }
}

constexpr uint16_t kUnknownOperation = 0;  // index into Run::operations
constexpr size_t kMaxOperations = 0xffff;
constexpr size_t kMaxProcesses = 16384;
constexpr size_t kMaxStreams = 0xfffe;

trace::OpClass checked(trace::OpClass op_class) {
  return *trace::EnumNameOpClass(op_class) ? op_class : trace::OpClass::Other;
}

Ns as_ns(uint64_t value) {
  return static_cast<Ns>(std::min<uint64_t>(value, kFarNs));
}

// CLOCK_REALTIME counts from 1970 and is larger than any time on the other clocks.
Ns as_realtime_ns(uint64_t value) {
  return static_cast<Ns>(std::min<uint64_t>(value, Ns{1} << 61));
}

}  // namespace

bool is_communication(const std::string& kernel) {
  return kernel_class(kernel) == KernelClass::kCommunication;
}

TableMerger::TableMerger(Run& run) : run_(run) {
  run_.operations.push_back({"unknown", trace::OpClass::Other});  // kUnknownOperation
}

uint16_t TableMerger::operation(const std::string& name, trace::OpClass op_class) {
  if (run_.operations.size() >= kMaxOperations) return kUnknownOperation;
  const auto key = fmt::format("{} {}", static_cast<int>(op_class), name);
  const auto [found, is_new] = operations_.emplace(key, static_cast<uint16_t>(run_.operations.size()));
  if (is_new) run_.operations.push_back({name, op_class});
  return found->second;
}

uint32_t TableMerger::kernel(Kernel kernel) {
  const auto key = fmt::format("{} {} {} {} {} {} {}", kernel.grid[0], kernel.grid[1], kernel.grid[2],
                               kernel.block[0], kernel.block[1], kernel.block[2], kernel.name);
  const auto [found, is_new] = kernels_.emplace(key, static_cast<uint32_t>(run_.kernels.size()));
  if (is_new) run_.kernels.push_back(std::move(kernel));
  return found->second;
}

ProcessTables& TableMerger::process(FileTables& file, uint32_t ordinal) {
  auto& tables = file.processes[ordinal];
  if (tables.process == kNone) {
    if (run_.processes.size() >= kMaxProcesses) {
      throw io::UserError(fmt::format(
          "the traces name more than {} processes; they are damaged: record the job again", kMaxProcesses));
    }
    tables.process = static_cast<uint32_t>(run_.processes.size());
    run_.processes.emplace_back();
  }
  return tables;
}

// One overload for each table; texts were taken in a walk before, because a table may stand before its text.
class TableVisitor {
 public:
  TableVisitor(TableMerger& merger, FileTables& tables)
      : merger_(merger), run_(merger.run_), tables_(tables) {}

  void operator()(const trace::Text&) {}
  void operator()(const trace::Operation& t);
  void operator()(const trace::Process& t);
  void operator()(const trace::ThreadName& t) {
    of(t.process()).thread_names[t.thread()] = text(t.name());  // a later one is a new name
  }
  void operator()(const trace::ClockSample& t);
  void operator()(const trace::Module& t) {
    process(t.process()).modules.push_back({t.base(), t.size(), text(t.path())});
  }
  void operator()(const trace::KernelInfo& t);
  void operator()(const trace::StreamInfo& t);
  void operator()(const trace::DeviceInfo& t);
  void operator()(const trace::LoaderInfo& t);
  void operator()(const trace::WorkerInfo& t) { workers_.push_back({t.loader(), t.worker(), t.pid()}); }
  void operator()(const trace::Loss& t) {
    const std::string reason = text(t.reason());
    Process& of = process(t.process());
    if (reason.starts_with(trace::kIncomplete))
      of.incomplete[reason.substr(trace::kIncomplete.size())] += t.count();
    else
      of.dropped_records[reason] += t.count();
  }
  void operator()(const trace::Source& t) {
    const std::string name = text(t.name());
    const SourceStatus status = status_of(t);
    process(t.process()).sources[name] = status;
    if (name == "cupti" && t.ticks() != 0) of(t.process()).cupti_changes.push_back({t.ticks(), status});
  }
  void operator()(const trace::Fact& t) { process(t.process()).facts[text(t.key())] = text(t.value()); }
  void operator()(const trace::Sample& t);
  void operator()(const trace::ProcessEnd& t);
  void operator()(const trace::Mount& t) {
    process(t.process())
        .mounts.push_back(
            {text(t.point()), text(t.type()), text(t.source()), t.device(), t.is_remote() == 1});
  }
  void operator()(const trace::DeviceSample& t);
  void operator()(const trace::PipelineStage& t);

  // Links name a loader, not a process; they belong to the process that has the loader.
  void place_workers();

 private:
  std::string text(uint32_t id) {
    const auto found = tables_.texts.find(id);
    if (found == tables_.texts.end()) return {};
    const std::string& text = run_.texts[found->second];
    if (text.size() > merger_.text_budget_) return {};
    merger_.text_budget_ -= text.size();
    return text;
  }
  // Before 1.3 a source had its text alone.
  SourceStatus status_of(const trace::Source& t) {
    SourceStatus status{t.state(), text(t.text()), text(t.holder())};
    const bool is_known = *trace::EnumNameSourceState(status.state) != 0;
    if (!is_known) status.state = trace::SourceState::Unknown;
    if (status.state == trace::SourceState::Unknown) read_text_of_1_2(status);
    return status;
  }
  ProcessTables& of(uint32_t ordinal) { return merger_.process(tables_, ordinal); }
  Process& process(uint32_t ordinal) { return run_.processes[of(ordinal).process]; }

  TableMerger& merger_;
  Run& run_;
  FileTables& tables_;
  std::vector<WorkerLink> workers_;
};

void TableVisitor::operator()(const trace::Operation& t) {
  if (tables_.operations.size() <= t.op()) tables_.operations.resize(size_t{t.op()} + 1, kUnknownOperation);
  tables_.operations[t.op()] = merger_.operation(text(t.name()), checked(t.op_class()));
}

void TableVisitor::operator()(const trace::Process& t) {
  auto& tables = of(t.ordinal());
  tables.parent_ordinal = t.parent_ordinal();
  tables.tick_source =
      t.tick_source() == trace::TickSource::Tsc ? trace::TickSource::Tsc : trace::TickSource::Monotonic;
  tables.start_ticks = t.start_ticks();
  auto& process = run_.processes[tables.process];
  process.pid = t.pid();
  process.parent_pid = t.parent_pid();
  process.host = text(t.host());
  process.script = text(t.script());
  process.executable = text(t.executable());
  process.user = text(t.user());
  process.rank = t.rank();
  process.local_rank = t.local_rank();
  process.world_size = t.world_size();
  process.cpu_count = t.cpu_count();
  process.start_realtime_ns = as_realtime_ns(t.start_realtime_ns());
  process.end_state = EndState::kKilledOrRunning;  // until a ProcessEnd says otherwise
  if (run_.run_id.empty()) run_.run_id = text(t.run_id());
}

void TableVisitor::operator()(const trace::ClockSample& t) {
  auto& tables = of(t.process());
  const Ns monotonic = as_ns(t.monotonic_ns());
  tables.host_clock.push_back({t.ticks(), monotonic, t.bracket_ns()});
  if (t.device_ns() != 0) tables.device_clock.push_back({t.device_ns(), monotonic, t.bracket_ns()});
  tables.realtime_offset = as_realtime_ns(t.realtime_ns()) - monotonic;
}

void TableVisitor::operator()(const trace::KernelInfo& t) {
  Kernel kernel{
      text(t.name()), {t.grid_x(), t.grid_y(), t.grid_z()}, {t.block_x(), t.block_y(), t.block_z()}, false};
  kernel.is_communication = is_communication(kernel.name);
  tables_.kernels.emplace(t.id(), merger_.kernel(std::move(kernel)));
}

void TableVisitor::operator()(const trace::StreamInfo& t) {
  auto& tables = of(t.process());
  auto& streams = run_.processes[tables.process].streams;
  if (streams.size() >= kMaxStreams) return;
  if (tables.stream_index.size() <= t.index()) tables.stream_index.resize(size_t{t.index()} + 1, kNoStream);
  if (tables.stream_index[t.index()] != kNoStream) return;
  tables.stream_index[t.index()] = static_cast<uint16_t>(streams.size());
  streams.push_back({t.device(), t.context(), t.stream()});
}

void TableVisitor::operator()(const trace::DeviceInfo& t) {
  auto& devices = process(t.process()).devices;
  const auto same = [&](const Device& device) { return device.ordinal == t.device(); };
  if (devices.size() >= kMaxDevices || std::any_of(devices.begin(), devices.end(), same)) return;
  auto& device = devices.emplace_back();
  device.ordinal = t.device();
  device.name = text(t.name());
  device.compute_major = t.major();
  device.compute_minor = t.minor();
  device.multiprocessors = t.multiprocessors();
  device.memory_bytes = t.memory_bytes();
  device.driver_version = t.driver_version();
  device.runtime_version = t.runtime_version();
}

void TableVisitor::operator()(const trace::LoaderInfo& t) {
  auto& tables = of(t.process());
  auto& loaders = run_.processes[tables.process].loaders;
  // A loader described again (a second iterator over it) is the newer description of the same loader.
  const auto [same, is_new] = tables.loaders.emplace(t.id(), static_cast<uint32_t>(loaders.size()));
  if (is_new) loaders.emplace_back();
  Loader& loader = loaders[same->second];
  loader.id = t.id();
  loader.class_name = text(t.class_name());
  loader.dataset = text(t.dataset());
  loader.location = text(t.location());
  loader.start_method = text(t.start_method());
  loader.sampler = text(t.sampler());
  loader.num_workers = t.num_workers();
  loader.batch_size = t.batch_size();
  loader.prefetch_factor = t.prefetch_factor();
  loader.batches = t.batches();
  loader.pin_memory = t.pin_memory();
  loader.persistent_workers = t.persistent_workers();
  loader.in_order = t.in_order();
  loader.drop_last = t.drop_last();
  if (t.framework() != 0) loader.framework = text(t.framework());
  loader.code = text(t.code());
  loader.instance = t.instance();
  loader.stages = text(t.stages());
  loader.repeats_per_worker = t.sharding() == 1;
}

void TableVisitor::operator()(const trace::Sample& t) {
  auto& tables = of(t.process());
  tables.sample_ticks.push_back(t.ticks());
  MachineSample& sample = run_.processes[tables.process].machine_samples.emplace_back();
  sample.cpu_ns = as_ns(t.cpu_ns());
  sample.children_cpu_ns = as_ns(t.children_cpu_ns());
  sample.run_delay_ns = as_ns(t.run_delay_ns());
  sample.throttled_ns = as_ns(t.throttled_ns());
  sample.cpu_total_ns = as_ns(t.cpu_total_ns());
  sample.cpu_idle_ns = as_ns(t.cpu_idle_ns());
  sample.cpu_steal_ns = as_ns(t.cpu_steal_ns());
  sample.major_faults = t.major_faults();
  sample.rss_bytes = t.rss_bytes();
  sample.children_run_delay_ns = as_ns(t.children_run_delay_ns());
  sample.psi_cpu_ns = as_ns(t.psi_cpu_ns());
  sample.psi_memory_ns = as_ns(t.psi_memory_ns());
  sample.psi_io_ns = as_ns(t.psi_io_ns());
  sample.disk_busy_ns = as_ns(t.disk_busy_ns());
  sample.throttled_count = t.throttled_count();
  sample.memory_available_bytes = t.memory_available_bytes();
  sample.swap_in_bytes = t.swap_in_bytes();
  sample.shm_used_bytes = t.shm_used_bytes();
  sample.disk_read_bytes = t.disk_read_bytes();
  sample.children_threads = t.children_threads();
  sample.cpu = t.cpu();
  sample.cpu_mhz = t.cpu_mhz();
  sample.other_children_cpu_ns = as_ns(t.other_children_cpu_ns());
  sample.minor_faults = t.minor_faults();
  sample.children_minor_faults = t.children_minor_faults();
  sample.system_ns = as_ns(t.system_ns());
  sample.children_system_ns = as_ns(t.children_system_ns());
  sample.ended_children_cpu_ns = as_ns(t.ended_children_cpu_ns());
}

void TableVisitor::operator()(const trace::DeviceSample& t) {
  auto& tables = of(t.process());
  tables.device_sample_ticks.push_back(t.ticks());
  DeviceSample& sample = run_.processes[tables.process].device_samples.emplace_back();
  sample.device = t.device();
  sample.sm_clock_mhz = t.sm_clock_mhz();
  sample.sm_clock_max_mhz = t.sm_clock_max_mhz();
  sample.throttle_reasons = t.throttle_reasons();
  sample.power_mw = t.power_mw();
  sample.power_limit_mw = t.power_limit_mw();
  sample.temperature_c = t.temperature_c();
  sample.pcie_generation = t.pcie_generation();
  sample.pcie_generation_max = t.pcie_generation_max();
  sample.pcie_width = t.pcie_width();
  sample.pcie_width_max = t.pcie_width_max();
  sample.memory_used_bytes = t.memory_used_bytes();
  sample.memory_bytes = t.memory_bytes();
  sample.utilization_percent = t.utilization_percent();
  sample.other_processes = t.other_processes();
  sample.other_memory_bytes = t.other_memory_bytes();
  sample.numa_node = t.numa_node();
  sample.power_limit_default_mw = t.power_limit_default_mw();
  if (t.is_other_utilization_known()) sample.other_utilization_percent = t.other_utilization_percent();
  sample.is_unused = t.is_unused() != 0;
}

void TableVisitor::operator()(const trace::PipelineStage& t) {
  auto& tables = of(t.process());
  tables.stage_ticks.push_back(t.ticks());
  run_.processes[tables.process].stage_readings.push_back({.loader = t.loader(),
                                                           .stage = t.stage(),
                                                           .feeds = t.feeds(),
                                                           .name = text(t.name()),
                                                           .elements = t.elements(),
                                                           .bytes_produced = t.bytes_produced(),
                                                           .bytes_consumed = t.bytes_consumed(),
                                                           .processing_ns = as_ns(t.processing_ns())});
}

void TableVisitor::operator()(const trace::ProcessEnd& t) {
  auto& tables = of(t.process());
  tables.end_ticks = t.ticks();
  auto& process = run_.processes[tables.process];
  process.end_state = EndState::kExited;
  process.exit_code = t.code();
}

void TableVisitor::place_workers() {
  std::unordered_map<uint32_t, ProcessTables*> owners;
  for (auto& [ordinal, tables] : tables_.processes) {
    for (const auto& [id, index] : tables.loaders) owners.emplace(id, &tables);
  }
  for (const auto& link : workers_) {
    const auto owner = owners.find(link.loader);
    if (owner != owners.end()) owner->second->workers.push_back(link);
  }
}

FileTables TableMerger::take(io::TraceFile& file) {
  FileTables tables;
  text_budget_ += 4 * file.bytes();
  const auto walk = [&](auto& visit, bool report) {
    for (const auto& frame : file.table_frames()) {
      if (!io::for_each_table(file.read(frame), visit) && report) {
        file.report_damage(fmt::format("a table in page {} is damaged", frame.offset / trace::kPageBytes));
      }
    }
  };
  const auto take_text = [&](const auto& table) {
    if constexpr (std::is_same_v<std::decay_t<decltype(table)>, trace::Text>) {
      if (!table.text() || !tables.texts.emplace(table.id(), next_text_).second) return;
      run_.texts.emplace(next_text_++, table.text()->str());
    }
  };
  walk(take_text, true);
  TableVisitor visitor(*this, tables);
  walk(visitor, false);
  visitor.place_workers();
  return tables;
}

}  // namespace gpuwatch::model
