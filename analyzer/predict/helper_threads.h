// SPDX-License-Identifier: Apache-2.0
// Threads that help the training thread (intra-op threads of PyTorch, OpenMP, BLAS) in a process that makes
// its batches itself. A worker has none: torch.set_num_threads(1). So what helped the fetch is missing there,
// and what helped training competes with the workers. Nanoseconds; pure functions.
//
// A helper that computes nothing spins: libgomp's wait for work for 3.4 ms after each parallel region on the
// machine that was measured, about four times as long where a pause instruction takes 140 cycles, Intel's
// 200 ms. Stacking each batch and pinning it made them use 3.9 ms a step of a job whose transforms are
// zlib's.
#pragma once

#include <optional>
#include <vector>

#include "analyzer/model/run.h"

namespace gpuwatch::predict {

// What the training thread was seen in within fetches, as shares of its stack samples. The rest is in
// packages that have no part in these threads (PIL, NumPy), or have theirs in a worker, too (OpenCV).
struct FetchCode {
  double tensors = 1;  // Python code of torch, or of a package that is built on it
  double users = 0;    // a line of the user's, which may call tensor operations
};

// All of it may be tensor operations where too few samples were taken.
FetchCode fetch_code(const model::Run& run, const model::Process& process,
                     const std::vector<const model::LoaderEpoch*>& epochs);

// How long helpers can have helped a fetch of `fetch_ns`, while they used `helpers_ns` more than training
// accounts for.
double most_help(const FetchCode& code, uint32_t cpu_count, double fetch_ns, double helpers_ns);

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
