// SPDX-License-Identifier: Apache-2.0
// Threads that pass on what other processes make: a multiprocessing.Pool and a ProcessPoolExecutor have one
// that reads their results from a pipe. More of them make nothing faster. Pure.
#pragma once

#include "analyzer/model/run.h"

namespace gpuwatch::model {

// f_type of statfs, of a pipe's descriptors.
inline constexpr uint32_t kPipeFilesystem = 0x50495045;

bool reads_pipe(const Thread& thread, const HostCall& call);

// Of the span, what the thread is blocked in reading from pipes.
double pipe_share(const Thread& thread, const TimeSpan& span);

}  // namespace gpuwatch::model
