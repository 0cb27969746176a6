// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/cpu_time.h"

#include <algorithm>
#include <utility>

namespace gpuwatch::model {
namespace {

struct Children {
  double workers_ns, others_ns;
};

// What those used that ended: what the live ones' counts lost, and of the rest as much as of the live ones'
// time is of workers. Which of them ended, the samples do not tell.
Children ended(const MachineSample& before, const MachineSample& sample) {
  const double ended = growth(before.ended_children_cpu_ns, sample.ended_children_cpu_ns),
               workers_lost = growth(sample.children_cpu_ns, before.children_cpu_ns),
               others_lost = growth(sample.other_children_cpu_ns, before.other_children_cpu_ns);
  const double lost = workers_lost + others_lost, known = std::min(ended, lost), rest = ended - known;
  const double workers = double(before.children_cpu_ns + sample.children_cpu_ns),
               others = double(before.other_children_cpu_ns + sample.other_children_cpu_ns);
  const double part_known = lost > 0 ? known / lost : 0,
               part_of_workers = workers + others > 0 ? workers / (workers + others) : 0;
  return {workers_lost * part_known + rest * part_of_workers,
          others_lost * part_known + rest * (1 - part_of_workers)};
}

}  // namespace

CpuTime cpu_time(const Process& process, TimeSpan span) {
  CpuTime result;
  const MachineSample* last = nullptr;
  for (const MachineSample& sample : process.machine_samples) {
    if (sample.time < span.begin || sample.time > span.end) continue;
    const MachineSample* before = std::exchange(last, &sample);
    if (!before) continue;
    const Children gone = ended(*before, sample);
    const double workers = double(sample.children_cpu_ns - before->children_cpu_ns) + gone.workers_ns;
    const double others =
        double(sample.other_children_cpu_ns - before->other_children_cpu_ns) + gone.others_ns;
    result.own_ns += growth(before->cpu_ns, sample.cpu_ns);
    result.workers_ns += std::max(0.0, workers);
    result.other_children_ns += std::max(0.0, others);
    result.is_least |= workers < 0 || others < 0;
  }
  return result;
}

}  // namespace gpuwatch::model
