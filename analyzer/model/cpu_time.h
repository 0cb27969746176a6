// SPDX-License-Identifier: Apache-2.0
// CPU time of a rank and its workers, from the samples that the rank makes about once a second. Nanoseconds;
// pure.
#pragma once

#include "analyzer/model/run.h"

namespace gpuwatch::model {

// Between the samples in a span of time. A worker that ends takes its count with it: such a second counts for
// the rank alone, and the workers used more than is known.
struct CpuTime {
  double own_ns = 0, workers_ns = 0;
  double other_children_ns = 0;  // other processes that it started, and theirs
  bool is_least = false;         // workers or others ended meanwhile
};

CpuTime cpu_time(const Process& process, TimeSpan span);

}  // namespace gpuwatch::model
