// SPDX-License-Identifier: Apache-2.0
// From traces that torch.profiler exported to a Run: what devices did, which calls into CUDA launched it or
// waited for it, and what the profiler and PyTorch marked (steps, optimizers, waits of a DataLoader). The
// files of one process become one (kineto_files.h). What such a trace does not have (I/O, loader workers, run
// delay, the machine) stays empty, and Process::sources says so.
//
// Throws io::UserError, also for a file without a device event.
#pragma once

#include "analyzer/io/trace_set.h"
#include "analyzer/model/run.h"

namespace gpuwatch::model {

Run build_kineto_run(const io::TraceSet& traces);

}  // namespace gpuwatch::model
