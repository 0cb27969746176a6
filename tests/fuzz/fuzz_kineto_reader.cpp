// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: any bytes as a trace that torch.profiler exported, plain or gzip.
//   build/fuzz/bin/fuzz_kineto_reader -max_len=65536 -rss_limit_mb=512 CORPUS
#include "analyzer/model/kineto.h"
#include "trace_in_memory.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpuwatch;
  return test::read_as_trace(data, size,
                             [](const io::TraceSet& traces) { return model::build_kineto_run(traces); });
}
