// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: any bytes as a trace that torch.profiler exported, plain or gzip. Nothing but UserError
// may come out.
//   build/fuzz/bin/fuzz_kineto_reader -max_len=65536 -rss_limit_mb=512 CORPUS
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "analyzer/io/user_error.h"
#include "analyzer/model/kineto.h"
#include "analyzer/model/steps.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpuwatch;
  static const int file = memfd_create("trace", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) return 0;
  try {
    const model::Run run = model::build_kineto_run(io::TraceSet{".", {path}});
    for (const auto& process : run.processes) model::find_steps(run, process);
  } catch (const io::UserError&) {
  }
  return 0;
}
