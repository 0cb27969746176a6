// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/build.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <optional>

#include "analyzer/io/kineto_file.h"
#include "analyzer/io/printable.h"
#include "analyzer/io/trace_file.h"
#include "analyzer/io/user_error.h"
#include "analyzer/model/clock.h"
#include "analyzer/model/earlier_runs.h"
#include "analyzer/model/instances.h"
#include "analyzer/model/kineto.h"
#include "analyzer/model/loaders.h"
#include "analyzer/model/match.h"
#include "analyzer/model/packages.h"
#include "analyzer/model/records.h"
#include "analyzer/model/roles.h"
#include "analyzer/model/tables.h"

namespace gpuwatch::model {
namespace {

std::string stop_sentence(const io::TraceFile& file) {
  const auto name = io::printable(file.path());
  switch (file.header().stopped) {
    case trace::StopReason::Recording:
      return {};
    case trace::StopReason::SizeLimit:
      return fmt::format("{}: recording stopped at the size limit; raise GPUWATCH_MAX_SIZE to see more",
                         name);
    case trace::StopReason::DiskFull:
      return fmt::format("{}: recording stopped because the disk was full", name);
    case trace::StopReason::DiskReserve:
      return fmt::format(
          "{}: recording stopped because the last 5% of the disk (at least 1 GiB, at most 20 GiB) is left to "
          "the job; set GPUWATCH_OUT to a disk with more space",
          name);
    case trace::StopReason::FileSizeLimit:
      return fmt::format("{}: recording stopped at the limit for file sizes (ulimit -f)", name);
    default:
      return fmt::format("{}: recording stopped after an error", name);
  }
}

std::string child_stop_sentence(const io::TraceFile& file) {
  const io::Header& header = file.header();
  if (header.stopped_children == 0) return {};
  return fmt::format(
      "{}: recording stopped early in {} child process{}, {}: what they did later is missing",
      io::printable(file.path()), header.stopped_children, header.stopped_children == 1 ? "" : "es",
      header.child_stop == trace::StopReason::FileSizeLimit
          ? "by a limit for file sizes (ulimit -f)"
          : "which could not open the trace any more (its user, its descriptors or its memory)");
}

class Builder {
 public:
  Run build(const io::TraceSet& traces);

 private:
  struct File {
    std::unique_ptr<io::TraceFile> trace;
    FileTables tables;
  };

  void open(const io::TraceSet& traces);
  void leave_out_earlier_runs();
  void take_tables();
  void make_clocks();
  LinearClock clock_from_start(ProcessTables& tables, const std::string& host);
  DeviceClock device_clock(const ProcessTables& tables);
  void map_tables(const ProcessTables& tables, const LinearClock& clock);
  void decode(File& file);
  void link();

  Run run_;
  TableMerger merger_{run_};
  std::vector<File> files_;
  std::vector<ProcessTables*> tables_;  // by index of the process
  std::vector<LinearClock> clocks_;
  std::vector<size_t> clock_of_;  // by index of the process, into clocks_
};

void Builder::open(const io::TraceSet& traces) {
  std::optional<io::UserError> first_error;
  for (const auto& path : traces.files) {
    try {
      files_.push_back({std::make_unique<io::TraceFile>(path), {}});
      run_.bytes += files_.back().trace->bytes();
    } catch (const io::UserError& error) {
      if (!first_error) first_error = error;
      run_.damage.push_back(error.what());
    }
  }
  if (files_.empty() && first_error) throw *first_error;
}

void Builder::leave_out_earlier_runs() {
  std::vector<RecordedFile> described;
  for (const File& file : files_) described.push_back(describe(*file.trace));
  std::vector<File> kept, others;
  const std::vector<size_t> meant = files_of_meant_run(described);
  for (size_t i = 0; i < files_.size(); ++i)
    (std::ranges::binary_search(meant, i) ? kept : others).push_back(std::move(files_[i]));
  files_ = std::move(kept);
  if (others.empty()) return;
  constexpr size_t kNamed = 3;
  std::string names;
  for (size_t i = 0; i < others.size(); ++i) {
    run_.bytes -= others[i].trace->bytes();
    if (i < kNamed) names += (i > 0 ? ", " : "") + io::printable(others[i].trace->path());
  }
  if (others.size() > kNamed) names += fmt::format(" and {} more", others.size() - kNamed);
  run_.other_runs = fmt::format(
      "{} holds several runs; this report is about the one of {}. To see another, name its files: {}.",
      io::printable(run_.directory), io::printable(files_.front().trace->path()), names);
}

void Builder::take_tables() {
  for (auto& file : files_) {
    file.tables = merger_.take(*file.trace);
    for (const auto& chunk : file.trace->chunks()) merger_.process(file.tables, chunk.process);
  }
  tables_.resize(run_.processes.size());
  for (auto& file : files_) {
    for (auto& [ordinal, tables] : file.tables.processes) tables_[tables.process] = &tables;
    for (auto& [ordinal, tables] : file.tables.processes) {
      const auto parent = file.tables.processes.find(tables.parent_ordinal);
      if (parent == file.tables.processes.end() || parent->second.process == tables.process) continue;
      run_.processes[tables.process].parent = parent->second.process;
    }
  }
}

// A single sample says when, but not how fast. The process's own start was noted on two clocks, too, less
// exactly.
LinearClock Builder::clock_from_start(ProcessTables& tables, const std::string& host) {
  auto points = tables.host_clock;
  const Process& process = run_.processes[tables.process];
  if (!points.empty() && process.start_realtime_ns > 0) {
    points.push_back({tables.start_ticks, process.start_realtime_ns - tables.realtime_offset, 1000});
  }
  LinearClock clock(points);
  if (!clock.knows_rate()) {
    run_.damage.push_back(
        fmt::format("the clock of process {} on {} was sampled {} only: its times are not reliable",
                    process.pid, io::printable(host), points.empty() ? "never" : "once"));
  }
  return clock;
}

// One clock a host: its processes share the TSC, and the samples of all say more than those of each.
void Builder::make_clocks() {
  clocks_.emplace_back();  // CLOCK_MONOTONIC itself
  clock_of_.assign(tables_.size(), 0);
  std::map<std::string, std::vector<size_t>> by_host;
  for (size_t i = 0; i < tables_.size(); ++i) {
    if (tables_[i]->tick_source == trace::TickSource::Tsc) by_host[run_.processes[i].host].push_back(i);
  }
  for (const auto& [host, processes] : by_host) {
    std::vector<ClockPoint> points;
    for (const size_t i : processes) {
      points.insert(points.end(), tables_[i]->host_clock.begin(), tables_[i]->host_clock.end());
    }
    LinearClock shared(points);
    // Contradictions mean that they are not one machine after all (equal names, or a reboot in between).
    if (shared.knows_rate() && shared.contradictions() == 0) {
      for (const size_t i : processes) clock_of_[i] = clocks_.size();
      clocks_.push_back(std::move(shared));
      continue;
    }
    for (const size_t i : processes) {
      LinearClock own(tables_[i]->host_clock);
      clock_of_[i] = clocks_.size();
      clocks_.push_back(own.knows_rate() ? std::move(own) : clock_from_start(*tables_[i], host));
    }
  }
}

DeviceClock Builder::device_clock(const ProcessTables& tables) {
  DeviceClock clock(tables.device_clock);
  if (!clock.empty()) {
    run_.clock_error_ns = std::max(run_.clock_error_ns, clock.residual_ns());
    run_.device_clock_steps += clock.steps();
    if (clock.units_per_ns() != 1) run_.device_units_per_ns = clock.units_per_ns();
    return clock;
  }
  // CUPTI's clock is CLOCK_REALTIME unless told otherwise.
  const auto offset = tables.realtime_offset;
  return DeviceClock({{static_cast<uint64_t>(std::max<Ns>(0, offset)), 0, 0}});
}

void Builder::map_tables(const ProcessTables& tables, const LinearClock& clock) {
  Process& process = run_.processes[tables.process];
  LinearClock::Cursor cursor;
  for (size_t i = 0; i < process.machine_samples.size(); ++i)
    process.machine_samples[i].time = clock.map(tables.sample_ticks[i], cursor);
  std::stable_sort(process.machine_samples.begin(), process.machine_samples.end(),
                   [](const MachineSample& a, const MachineSample& b) { return a.time < b.time; });
  for (size_t i = 0; i < process.device_samples.size(); ++i)
    process.device_samples[i].time = clock.map(tables.device_sample_ticks[i]);
  for (size_t i = 0; i < process.stage_readings.size(); ++i)
    process.stage_readings[i].time = clock.map(tables.stage_ticks[i]);
  if (tables.start_ticks != 0) process.start = clock.map(tables.start_ticks);
  if (tables.end_ticks != 0) process.last_seen = clock.map(tables.end_ticks);
}

void Builder::decode(File& file) {
  const std::span<const io::ChunkRef> chunks = file.trace->chunks();
  for (auto& [ordinal, tables] : file.tables.processes) {
    const auto of_process =
        std::equal_range(chunks.begin(), chunks.end(), io::ChunkRef{.process = ordinal},
                         [](const io::ChunkRef& a, const io::ChunkRef& b) { return a.process < b.process; });
    const std::span<const io::ChunkRef> own(of_process.first, of_process.second);
    const LinearClock& clock = clocks_[clock_of_[tables.process]];
    Process& process = run_.processes[tables.process];
    map_tables(tables, clock);
    // Its end could not be recorded any more: that says nothing of how it ended.
    const io::Header& header = file.trace->header();
    const bool is_cut = header.stopped != trace::StopReason::Recording ||
                        (header.stopped_children > 0 && tables.parent_ordinal != trace::kNoParent);
    if (is_cut && process.end_state == EndState::kKilledOrRunning) process.end_state = EndState::kUnknown;
    const DeviceClock device = device_clock(tables);
    run_.events +=
        decode_records({*file.trace, run_.operations, file.tables, tables, clock, device}, own, process);
    note_extent(process);
    find_device_gaps(tables.cupti_changes, clock, process);
    const auto count = match_launches(process);
    count_calls_without_record(run_, process);
    run_.kernels_total += count.kernels;
    run_.kernels_matched += count.matched;
  }
  for (auto& sentence : file.trace->damage()) run_.damage.push_back(std::move(sentence));
  if (auto sentence = stop_sentence(*file.trace); !sentence.empty())
    run_.stopped.push_back(std::move(sentence));
  if (auto sentence = child_stop_sentence(*file.trace); !sentence.empty())
    run_.stopped_children.push_back(std::move(sentence));
}

// PyTorch's C++ library, or a script that used none of what tells its version: the words for it are
// PyTorch's.
void note_torch(Run& run) {
  for (Process& process : run.processes)
    if (std::ranges::any_of(process.modules, [](const ModuleRange& module) {
          return module.path.find("/libtorch") != std::string::npos;
        }))
      process.facts.try_emplace("torch", "");
}

// A launcher that tells ranks by arguments (mp.spawn) sets no variable, and Slurm's are then of the launcher:
// torch.distributed knows.
void note_process_groups(Run& run) {
  const auto number = [](const Process& process, const char* fact) {
    const auto found = process.facts.find(fact);
    int value = -1;
    if (found != process.facts.end())
      std::from_chars(found->second.data(), found->second.data() + found->second.size(), value);
    return value;
  };
  for (Process& process : run.processes) {
    const int rank = number(process, "process_group.rank"), size = number(process, "process_group.size");
    // A group of one that each rank makes for itself says nothing of the others.
    if (rank < 0 || size < 1 || (size == 1 && process.rank >= 0)) continue;
    process.rank = rank;
    process.world_size = size;
  }
}

void Builder::link() {
  link_parents(run_);
  complete_worker_links(run_, tables_);
  join_instances(run_, tables_);
  LoaderEpochs epochs(run_);
  for (uint32_t i = 0; i < run_.processes.size(); ++i) epochs.build(i, tables_[i]->workers);
  find_training_threads(run_);
  separate_ranks(run_);
  find_running(run_);
  note_torch(run_);
  note_process_groups(run_);
  mark_packages(run_);
}

Run Builder::build(const io::TraceSet& traces) {
  run_.directory = traces.directory;
  open(traces);
  if (traces.may_hold_several_runs && files_.size() > 1) leave_out_earlier_runs();
  take_tables();
  make_clocks();
  for (auto& file : files_) decode(file);
  link();
  return std::move(run_);
}

}  // namespace

Run build_run(const io::TraceSet& traces) {
  const auto imported = std::count_if(traces.files.begin(), traces.files.end(), io::is_kineto_path);
  if (imported == static_cast<ptrdiff_t>(traces.files.size()) && imported > 0)
    return build_kineto_run(traces);
  if (imported > 0)
    throw io::UserError(
        "torch.profiler's traces and gpuwatch's do not go into one report; analyze them apart");
  return Builder().build(traces);
}

Run build_run(const std::vector<std::string>& arguments) {
  return build_run(io::find_traces(arguments));
}

}  // namespace gpuwatch::model
