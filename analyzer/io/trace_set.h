// SPDX-License-Identifier: Apache-2.0
// Which trace files a command line means: files, run directories, or, without an argument, the newest run.
// Throws UserError when there is none.
#pragma once

#include <string>
#include <vector>

namespace gpuwatch::io {

struct TraceSet {
  std::string directory;               // of the run, as the user would name it
  std::vector<std::string> files;      // .gwt files, or traces that torch.profiler exported; sorted
  bool may_hold_several_runs = false;  // what lay in one folder; what was named one by one is all meant
};

// Each argument is a file or a directory. None: $GPUWATCH_OUT, then a run in (or as) the current directory,
// then the places the recorder falls back to ($SLURM_TMPDIR, $TMPDIR, /tmp/gpuwatch-<uid>).
TraceSet find_traces(const std::vector<std::string>& arguments);

}  // namespace gpuwatch::io
