// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/captures.h"

#include <algorithm>

namespace gpuwatch::model {
namespace {

struct Edge {
  Ns time;
  int change;
};

std::vector<Edge> edges_of(const Run& run, const Process& process) {
  std::vector<Edge> edges;
  for (const Thread& thread : process.threads) {
    for (const HostCall& call : thread.calls) {
      if (call.op_class != trace::OpClass::Capture) continue;
      const bool begins = run.operations[call.operation].name.find("BeginCapture") != std::string::npos;
      if (!begins)
        edges.push_back({call.end, -1});
      else if (!call.failed())
        edges.push_back({call.begin, 1});
    }
  }
  std::sort(edges.begin(), edges.end(), [](Edge a, Edge b) { return a.time < b.time; });
  return edges;
}

}  // namespace

std::vector<TimeSpan> captures(const Run& run, const Process& process) {
  std::vector<TimeSpan> found;
  int under_way = 0;
  Ns begin = 0;
  for (const Edge& edge : edges_of(run, process)) {
    if (edge.change > 0 && under_way++ == 0) begin = edge.time;
    if (edge.change < 0 && under_way > 0 && --under_way == 0) found.push_back({begin, edge.time});
  }
  return found;
}

bool is_captured(const std::vector<TimeSpan>& captures, const HostCall& call) {
  const auto after = std::upper_bound(captures.begin(), captures.end(), call.begin,
                                      [](Ns time, const TimeSpan& capture) { return time < capture.begin; });
  return after != captures.begin() && call.end <= std::prev(after)->end;
}

}  // namespace gpuwatch::model
