// SPDX-License-Identifier: Apache-2.0
// Threads that help the training thread (intra-op threads of PyTorch, OpenMP, BLAS) in a process that makes
// its batches itself. A worker has none: torch.set_num_threads(1). So what helped the fetch is missing there,
// and what helped training competes with the workers. Nanoseconds; pure functions.
#pragma once

#include <optional>

#include "analyzer/model/run.h"

namespace gpuwatch::predict {

struct HelperTime {
  double training_ns = 0;  // CPU time of the training thread outside of fetches
  double helped_training_ns = 0, helped_fetches_ns = 0;
};

// Of the CPU time of the whole process in a span of time, with that of the fetches by the training thread. A
// helper computes no longer than the thread that it helps, so there is an upper bound for training; as far as
// that allows the time is training's. nullopt: the training thread's own CPU time was not recorded.
std::optional<HelperTime> divide_cpu_time(const model::Process& process, model::TimeSpan span,
                                          double process_ns, double fetch_ns);

}  // namespace gpuwatch::predict
