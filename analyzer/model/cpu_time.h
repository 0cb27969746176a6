// SPDX-License-Identifier: Apache-2.0
// CPU time of a rank and its workers, from the samples that the rank makes about once a second. Nanoseconds;
// pure.
#pragma once

#include <algorithm>

#include "analyzer/model/run.h"

namespace gpuwatch::model {

// Of one counter; those of processes that ended may fall.
inline double growth(Ns before, Ns after) {
  return double(std::max<Ns>(0, after - before));
}

// Between the samples in a span of time. Children that end leave the live ones' counts and join that of the
// ended: 24 workers of epochs of two seconds were seen to use 0.2 cores of 0.8, and the rest seemed to be
// other programs'. Where it is not known (before format 1.12, or another process waited for them), such a
// second counts for the rank alone.
struct CpuTime {
  double own_ns = 0, workers_ns = 0;
  double other_children_ns = 0;  // other processes that it started, and theirs
  bool is_least = false;         // workers or others ended, and what they used is not known
};

CpuTime cpu_time(const Process& process, TimeSpan span);

}  // namespace gpuwatch::model
