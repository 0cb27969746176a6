// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/pipe_reader.h"

#include <algorithm>

namespace gpuwatch::model {

bool reads_pipe(const Thread& thread, const HostCall& call) {
  return call.op_class == trace::OpClass::Read && call.detail < thread.io_details.size() &&
         thread.io_details[call.detail].filesystem() == kPipeFilesystem;
}

double pipe_share(const Thread& thread, const TimeSpan& span) {
  double ns = 0;
  Ns outer_end = span.begin;
  for (const HostCall& call : thread.calls) {
    const Ns begin = std::max(call.begin, outer_end), end = std::min(call.end, span.end);
    if (end <= begin || !reads_pipe(thread, call)) continue;
    outer_end = end;
    ns += double(end - begin);
  }
  return span.length() > 0 ? ns / double(span.length()) : 0;
}

}  // namespace gpuwatch::model
