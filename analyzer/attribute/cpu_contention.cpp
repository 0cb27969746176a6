// SPDX-License-Identifier: Apache-2.0
#include "analyzer/attribute/cpu_contention.h"

#include <algorithm>
#include <map>

namespace gpuwatch::attribute {

using model::Batch;
using model::Ns;
using model::TimeSpan;

namespace {

// Of its fetch, the part in which a worker had a CPU or waited for one.
double wanted_by(const Batch& batch) {
  const double length = double(std::max<Ns>(batch.fetch.length(), 1));
  return std::clamp(double(batch.fetch_cpu_ns + batch.fetch_run_delay_ns) / length, 0.0, 1.0);
}

// Between one next() and the following one of the same thread.
std::vector<TimeSpan> consuming(const model::Process& process) {
  std::map<uint32_t, std::vector<TimeSpan>> waits;
  for (const model::LoaderEpoch& epoch : process.epochs)
    for (const Batch& batch : epoch.batches)
      if (batch.next.length() > 0) waits[process.loaders[epoch.loader].thread].push_back(batch.next);
  std::vector<TimeSpan> result;
  for (auto& [thread, of_thread] : waits) {
    std::sort(of_thread.begin(), of_thread.end(),
              [](const TimeSpan& a, const TimeSpan& b) { return a.begin < b.begin; });
    for (size_t i = 1; i < of_thread.size(); ++i)
      if (of_thread[i].begin > of_thread[i - 1].end)
        result.push_back({of_thread[i - 1].end, of_thread[i].begin});
  }
  return result;
}

}  // namespace

CpuContention::CpuContention(const model::Process& process) : cpus_(std::max(1u, process.cpu_count)) {
  const auto add = [&](TimeSpan time, double wanted) {
    if (time.length() <= 0 || wanted <= 0) return;
    edges_.push_back({time.begin, wanted, 0});
    edges_.push_back({time.end, -wanted, 0});
  };
  for (const model::LoaderEpoch& epoch : process.epochs)
    for (const Batch& batch : epoch.batches)
      if (batch.worker < epoch.workers.size()) add(batch.fetch, wanted_by(batch));
  for (const TimeSpan& time : consuming(process)) add(time, 1);
  std::sort(edges_.begin(), edges_.end(), [](const Edge& a, const Edge& b) { return a.time < b.time; });
  double wanted = 0, delay = 0;
  Ns last = 0;
  for (Edge& edge : edges_) {
    if (wanted > cpus_) delay += double(edge.time - last) * (1 - cpus_ / wanted);
    last = edge.time;
    wanted += edge.wanted;
    edge.wanted = wanted;
    edge.delay = delay;
  }
}

Ns CpuContention::until(Ns time) const {
  const auto after = std::upper_bound(edges_.begin(), edges_.end(), time,
                                      [](Ns at, const Edge& edge) { return at < edge.time; });
  if (after == edges_.begin()) return 0;
  const Edge& edge = *(after - 1);
  const double more = edge.wanted > cpus_ ? double(time - edge.time) * (1 - cpus_ / edge.wanted) : 0;
  return static_cast<Ns>(edge.delay + more);
}

}  // namespace gpuwatch::attribute
