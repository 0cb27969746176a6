// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: any bytes as a trace file.
//   build/fuzz/bin/fuzz_trace_reader -max_len=65536 -rss_limit_mb=512 CORPUS
// A corpus of real traces (a few pages each) gets deeper than an empty one.
#include "analyzer/model/build.h"
#include "trace_in_memory.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpuwatch;
  return test::read_as_trace(data, size, [](const io::TraceSet& traces) { return model::build_run(traces); });
}
