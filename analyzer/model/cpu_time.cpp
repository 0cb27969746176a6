// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/cpu_time.h"

#include <algorithm>

namespace gpuwatch::model {

CpuTime cpu_time(const Process& process, TimeSpan span) {
  CpuTime result;
  const MachineSample* last = nullptr;
  for (const MachineSample& sample : process.machine_samples) {
    if (sample.time < span.begin || sample.time > span.end) continue;
    if (last) {
      result.own_ns += double(std::max<Ns>(0, sample.cpu_ns - last->cpu_ns));
      result.workers_ns += double(std::max<Ns>(0, sample.children_cpu_ns - last->children_cpu_ns));
      result.other_children_ns +=
          double(std::max<Ns>(0, sample.other_children_cpu_ns - last->other_children_cpu_ns));
      result.is_least |= sample.children_cpu_ns < last->children_cpu_ns ||
                         sample.other_children_cpu_ns < last->other_children_cpu_ns;
    }
    last = &sample;
  }
  return result;
}

}  // namespace gpuwatch::model
