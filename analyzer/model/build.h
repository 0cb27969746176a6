// SPDX-License-Identifier: Apache-2.0
// From trace files, ours or torch.profiler's, to a Run. Throws io::UserError when nothing can be read; a file
// that cannot be read beside others that can, and damage within files, are sentences in Run::damage.
#pragma once

#include <string>
#include <vector>

#include "analyzer/io/trace_set.h"
#include "analyzer/model/run.h"

namespace gpuwatch::model {

Run build_run(const io::TraceSet& traces);

// `arguments` as on the command line: files, directories, or none for the newest run.
Run build_run(const std::vector<std::string>& arguments);

}  // namespace gpuwatch::model
