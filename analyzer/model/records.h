// SPDX-License-Identifier: Apache-2.0
// Decodes the hot records of one process (its chunks) into threads with calls, and devices with operations.
// The analyzer's hot loop: no allocation and no look-up by hash for a record that is one slot.
#pragma once

#include <span>

#include "analyzer/io/trace_file.h"
#include "analyzer/model/clock.h"
#include "analyzer/model/run.h"
#include "analyzer/model/tables.h"

namespace gpuwatch::model {

struct RecordContext {
  io::TraceFile& file;
  const std::vector<Operation>& operations;
  FileTables& tables;
  ProcessTables& process_tables;
  const LinearClock& host_clock;
  const DeviceClock& device_clock;
};

// `chunks` are the process's own, by thread and sequence. Afterwards calls are sorted by begin, outer before
// inner, and device operations by begin. Returns the number of records.
uint64_t decode_records(const RecordContext& context, std::span<const io::ChunkRef> chunks, Process& process);

// Sorts calls by begin, outer before inner, and mends ends that rounding let slip (see the .cpp).
void order_calls(std::vector<HostCall>& calls);
// By begin, outer before inner.
void order_ranges(std::vector<Range>& ranges);

// Process::start and last_seen, from what the process recorded.
void note_extent(Process& process);

}  // namespace gpuwatch::model
