// SPDX-License-Identifier: Apache-2.0
// Who records twice into one folder (gpuwatch run -o out, GPUWATCH_OUT in a profile) has two runs in it: read
// as one, their steps, workers and samples would be mixed. Ranks of one job that were not told a common run
// id have several, too: they ran at the same time, or no rank of a host is there twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/io/trace_file.h"

namespace gpuwatch::model {

struct RecordedFile {
  std::string run_id, script;  // "" unknown
  std::string rank;            // host and number: equal ranks of one job are one process after another
  uint64_t begin_ns = 0;       // CLOCK_REALTIME: its processes' first start, 0 unknown
  uint64_t end_ns = 0;         // last time that it is known to have been recorded at
  bool may_train = false;      // made a loader, or launched kernels
};

// From its tables, which are read twice for it: they are a small part of a file.
RecordedFile describe(io::TraceFile& file);

// All files where they are of one run. Of several the last of its script; of several scripts (prepare, train,
// evaluate) the one that may train and ran longest.
std::vector<size_t> files_of_meant_run(const std::vector<RecordedFile>& files);

}  // namespace gpuwatch::model
