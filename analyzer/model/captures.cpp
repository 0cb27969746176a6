// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/captures.h"

#include <algorithm>

namespace gpuwatch::model {

std::vector<Interval> captures(const Run& run, const Process& process) {
  std::vector<Interval> found;
  for (const Thread& thread : process.threads) {
    bool is_open = false;
    for (const HostCall& call : thread.calls) {
      if (call.op_class != trace::OpClass::Capture) continue;
      if (run.operations[call.operation].name.find("BeginCapture") == std::string::npos) {
        if (is_open) found.back().end = call.end;
        is_open = false;
      } else if (!call.failed()) {
        found.push_back({call.begin, process.last_seen});
        is_open = true;
      }
    }
  }
  std::sort(found.begin(), found.end(), [](Interval a, Interval b) { return a.begin < b.begin; });
  return found;
}

bool is_captured(const std::vector<Interval>& captures, const HostCall& call) {
  return std::any_of(captures.begin(), captures.end(), [&](const Interval& capture) {
    return capture.begin <= call.begin && call.end <= capture.end;
  });
}

}  // namespace gpuwatch::model
