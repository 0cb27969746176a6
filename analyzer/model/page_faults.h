// SPDX-License-Identifier: Apache-2.0
// Pages that a rank or its workers were given without I/O while it trained, from the samples that the rank
// makes about once a second (trace 1.10 and newer). Pure.
#pragma once

#include <optional>

#include "analyzer/model/run.h"

namespace gpuwatch::model {

struct PageFaults {
  double per_cpu_s = 0;     // minor faults for each second of their CPU time
  double system_share = 0;  // of their CPU time, in the kernel
};

// Medians over the samples within the span: a worker that has just been forked also faults on the pages that
// it shares with its parent, some 75000 of them once. Empty with fewer than three samples in which it, or all
// workers, lived and computed.
std::optional<PageFaults> page_faults_of_workers(const Process& process, TimeSpan span);
std::optional<PageFaults> page_faults_of_rank(const Process& process, TimeSpan span);

}  // namespace gpuwatch::model
