// SPDX-License-Identifier: Apache-2.0
// Which of several exported traces belong together: torch.profiler writes a file for each process and for
// each time that its schedule was active. Files of different jobs are refused, because a report would compare
// what never ran together. Pure functions, except that they throw io::UserError.
#pragma once

#include <string>
#include <vector>

#include "analyzer/io/kineto_file.h"

namespace gpuwatch::model {

struct KinetoFile {
  std::string path;
  io::KinetoTrace trace;
};

// One trace for each process, its files joined in time order (KinetoTrace::gaps). In the order of ranks.
std::vector<io::KinetoTrace> join_files(std::vector<KinetoFile> files);

}  // namespace gpuwatch::model
