// SPDX-License-Identifier: Apache-2.0
// What the fuzz targets share: bytes as a file that is never on a disk, for readers that only see a path.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "analyzer/io/trace_set.h"
#include "analyzer/io/user_error.h"
#include "analyzer/model/steps.h"

namespace gpuwatch::test {

// Nothing but UserError may come out of `build`.
template <class BuildRun>
int read_as_trace(const uint8_t* data, size_t size, BuildRun build) {
  static const int file = memfd_create("trace", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) return 0;
  try {
    const model::Run run = build(io::TraceSet{".", {path}});
    for (const auto& process : run.processes) model::find_steps(run, process);
  } catch (const io::UserError&) {
  }
  return 0;
}

}  // namespace gpuwatch::test
