// SPDX-License-Identifier: Apache-2.0
// What fetches waited for that other processes of the same machine made: programs that the dataset's code
// starts for a sample (ffmpeg, a shell), and whoever writes to its pipes. Storage has no part in it, and that
// process computes meanwhile. Nanoseconds; pure.
#pragma once

#include <unordered_map>

#include "analyzer/model/run.h"

namespace gpuwatch::model {

// Reads from a pipe. A socket may lead to a process of this machine as well as anywhere.
bool reads_pipe(const std::vector<trace::IoDetail>& details, const HostCall& call);

struct ProcessWait {
  Ns reading_ns = 0;  // in reads from pipes; part of Batch::fetch_blocked_ns and fetch_io_ns
  Ns other_ns = 0;    // until a child ended, and polling its pipes
  Ns all_ns() const { return reading_ns + other_ns; }
};

class ProcessWaits {
 public:
  ProcessWaits(const Run& run, const Process& consumer) : run_(run), consumer_(consumer) {}
  ProcessWait of(const LoaderEpoch& epoch, const Batch& batch);  // zeros where it left no trace

 private:
  using ByBegin = std::unordered_map<Ns, ProcessWait>;  // of the fetch
  const Run& run_;
  const Process& consumer_;
  std::unordered_map<const Process*, ByBegin> known_;
};

}  // namespace gpuwatch::model
