// SPDX-License-Identifier: Apache-2.0
// Takes the cold tables of one file into the run: processes, operations, kernels, texts, loaders. Ids of a
// file mean nothing in another one; what the hot records need to be translated with stays in FileTables.
// Times stay in ticks until all clock samples of the host are known.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/io/trace_file.h"
#include "analyzer/model/clock.h"
#include "analyzer/model/device_gaps.h"
#include "analyzer/model/run.h"

namespace gpuwatch::model {

// By the name: a kernel of NCCL, RCCL or another library of collectives (kernel_class.def).
bool is_communication(const std::string& kernel);

struct WorkerLink {
  uint32_t loader = 0;  // Loader::id
  uint32_t worker = 0;
  uint32_t pid = 0;
};

// What a trace says of a process beside what Process holds: in ticks, and by ids of its file.
struct ProcessTables {
  uint32_t process = kNone;  // index into Run::processes
  uint32_t parent_ordinal = trace::kNoParent;
  trace::TickSource tick_source = trace::TickSource::Monotonic;
  uint64_t start_ticks = 0;
  uint64_t end_ticks = 0;  // 0: no ProcessEnd
  std::vector<ClockPoint> host_clock;
  std::vector<ClockPoint> device_clock;
  std::vector<SourceChange> cupti_changes;
  Ns realtime_offset = 0;                     // CLOCK_REALTIME minus CLOCK_MONOTONIC at its last sample
  std::vector<uint64_t> sample_ticks;         // of Process::samples
  std::vector<uint64_t> device_sample_ticks;  // of Process::device_samples
  std::vector<uint64_t> stage_ticks;          // of Process::stage_readings
  std::vector<uint16_t> stream_index;         // StreamInfo.index -> index into Process::streams, kNoStream
  std::unordered_map<uint32_t, uint32_t> loaders;  // LoaderInfo.id -> index into Process::loaders
  std::vector<WorkerLink> workers;                 // of its loaders
  std::unordered_map<uint32_t, std::string> thread_names;
};
inline constexpr uint16_t kNoStream = 0xffff;
inline constexpr size_t kMaxDevices =
    256;  // in one process, each a row of the report; a damaged file names more

struct FileTables {
  std::unordered_map<uint32_t, uint32_t> texts;    // id in the file -> id in Run::texts
  std::unordered_map<uint32_t, uint32_t> kernels;  // KernelInfo.id -> index into Run::kernels
  std::vector<uint16_t> operations;                // Operation.op -> index into Run::operations
  std::map<uint32_t, ProcessTables> processes;     // by ordinal
};

// Shared over the files of a run, so that equal operations and kernels get one entry.
class TableMerger {
 public:
  explicit TableMerger(Run& run);
  // Throws UserError when the file names more processes than any run has.
  FileTables take(io::TraceFile& file);
  ProcessTables& process(FileTables& tables, uint32_t ordinal);  // added if no table named it

 private:
  friend class TableVisitor;
  uint16_t operation(const std::string& name, trace::OpClass op_class);
  uint32_t kernel(Kernel kernel);

  Run& run_;
  // Many tables may name one long text; copies of it are paid from the bytes of the files, or left empty.
  uint64_t text_budget_ = 1 << 20;
  std::unordered_map<std::string, uint16_t> operations_;
  std::unordered_map<std::string, uint32_t> kernels_;
  uint32_t next_text_ = 1;
};

}  // namespace gpuwatch::model
