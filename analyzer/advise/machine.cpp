// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/machine.h"

#include <algorithm>
#include <cmath>

#include "analyzer/advise/worker_bound.h"
#include "analyzer/model/cpu_time.h"

namespace gpuwatch::advise {
namespace {

using model::MachineSample;
using model::Ns;

using model::growth;

double growth(uint64_t before, uint64_t after) {
  return after > before ? double(after - before) : 0;
}

// Machine samples are taken by any recording thread, in most jobs only by the training thread, and each holds
// the run delay of the thread that took it. A difference longer than the time between two samples, or a
// negative one, is that of two threads and is left out.
double run_delay_share(const std::vector<const MachineSample*>& samples) {
  double delay = 0, wall = 0;
  for (size_t i = 1; i < samples.size(); ++i) {
    const Ns length = samples[i]->time - samples[i - 1]->time;
    const Ns delayed = samples[i]->run_delay_ns - samples[i - 1]->run_delay_ns;
    if (delayed < 0 || delayed > length) continue;
    delay += double(delayed);
    wall += double(length);
  }
  return wall > 0 ? delay / wall : 0;
}

void add_cpu(const RuleInput& input, model::TimeSpan span, MachineUse& use) {
  const double wall_ns = use.wall_s * 1e9;
  for (const model::Process& process : input.run.processes) {
    if (!process.is_rank() || process.host != input.process.host) continue;
    const model::CpuTime time = model::cpu_time(process, span);
    use.job_cores += (time.own_ns + time.workers_ns + time.other_children_ns) / wall_ns;
    use.worker_cores += time.workers_ns / wall_ns;
    use.other_child_cores += time.other_children_ns / wall_ns;
  }
}

void add_machine(const MachineSample& first, const MachineSample& last, MachineUse& use) {
  const double wall_ns = use.wall_s * 1e9;
  const double total = growth(first.cpu_total_ns, last.cpu_total_ns);
  const double steal = growth(first.cpu_steal_ns, last.cpu_steal_ns);
  const double busy = std::max(0.0, total - growth(first.cpu_idle_ns, last.cpu_idle_ns) - steal);
  use.cores = total / wall_ns;
  use.other_cores = std::max(0.0, busy / wall_ns - use.job_cores);
  use.steal_share = busy + steal > 0 ? steal / (busy + steal) : 0;
  use.steal_cores = steal / wall_ns;
  use.throttled_share = growth(first.throttled_ns, last.throttled_ns) / wall_ns;
  use.cpu_stall_share = growth(first.psi_cpu_ns, last.psi_cpu_ns) / wall_ns;
  use.memory_stall_share = growth(first.psi_memory_ns, last.psi_memory_ns) / wall_ns;
  use.io_stall_share = growth(first.psi_io_ns, last.psi_io_ns) / wall_ns;
  use.swap_in_bytes_s = growth(first.swap_in_bytes, last.swap_in_bytes) / use.wall_s;
  use.major_faults_s = growth(first.major_faults, last.major_faults) / use.wall_s;
}

void add_levels(const std::vector<const MachineSample*>& samples, MachineUse& use) {
  for (const MachineSample* sample : samples) {
    use.most_shm_used_bytes = std::max(use.most_shm_used_bytes, double(sample->shm_used_bytes));
    const double available = double(sample->memory_available_bytes);
    if (available > 0 &&
        (use.least_memory_available_bytes == 0 || available < use.least_memory_available_bytes))
      use.least_memory_available_bytes = available;
  }
}

}  // namespace

std::optional<MachineUse> machine_use(const RuleInput& input) {
  if (input.rank.steps.empty()) return std::nullopt;
  const model::TimeSpan steps{input.rank.steps.front().step.begin, input.rank.steps.back().step.end};
  std::vector<const MachineSample*> samples;
  for (const MachineSample& sample : input.process.machine_samples)
    if (sample.time >= steps.begin && sample.time <= steps.end) samples.push_back(&sample);
  if (samples.size() < 2 || samples.back()->time <= samples.front()->time) return std::nullopt;
  MachineUse use;
  const model::TimeSpan span{samples.front()->time, samples.back()->time};
  use.wall_s = double(span.length()) / 1e9;
  use.run_delay_share = run_delay_share(samples);
  add_cpu(input, span, use);
  add_machine(*samples.front(), *samples.back(), use);
  add_levels(samples, use);
  return use;
}

bool fills_cores(const RuleInput& input, const MachineUse& use) {
  return use.job_cores >= kFullCores * cores_of_rank(input) * input.ranks_on_host;
}

double worker_share_of_cores(const RuleInput& input, const MachineUse& use) {
  const double others = std::max({use.other_cores, use.other_child_cores, use.steal_cores});
  const bool delay_training = use.run_delay_share >= kLeastCoreWait && use.worker_cores > others;
  const double least = delay_training ? kLeastOfDelayed : kLeastOfCpu;
  if (!input.loader || !fills_cores(input, use) || use.worker_cores < least * use.job_cores) return 0;
  const bool is_one_thread = input.loader->think_cores_known && input.loader->think_cores <= 1;
  const double of_rank = is_one_thread ? 1 : cores_of_rank(input);
  return std::max(0.0, 1 - (use.job_cores - use.worker_cores) / (of_rank * input.ranks_on_host));
}

double cpu_quota(const model::Process& process) {
  return std::max(0.0, number_fact(process, "cpu_quota"));
}

double recoverable_share(const RuleInput& input, double lost_share) {
  const double device_share = input.now_ms > 0 ? input.device_floor_ms() / input.now_ms : 0;
  return std::min(lost_share, std::max(0.0, 1 - device_share));
}

std::optional<predict::Prediction> prediction_with_cpu(const RuleInput& input, const MachineUse& use,
                                                       double cores) {
  // Samples come about once a second; that the delay of a step may differ from theirs by a tenth is assumed,
  // not measured.
  constexpr double kDelaySpread = 0.1;
  const double delay = std::clamp(use.run_delay_share, 0.0, 0.95);
  std::optional<predict::Prediction> prediction;
  if (input.loader && input.device_floor_ms() == 0) {
    predict::LoaderReplayInput changed = *input.loader;
    for (predict::ReplayEpoch& epoch : changed.epochs)
      for (predict::BatchCost& batch : epoch.batches) batch.think_ns *= 1 - delay;
    predict::LoaderSetting setting = input.loader_setting();
    setting.cores = cores;
    prediction = loader_prediction(input, changed, input.loader_check, setting);
  } else if (!input.loader && input.device_floor_ms() == 0 && !input.device_hidden()) {
    const double after = input.now_ms * (1 - delay);
    const double spread = input.now_ms * delay * kDelaySpread;
    const predict::ReplayCheck exact{input.now_ms, input.now_ms, input.rank.steps.size()};
    prediction = predict::step_prediction(exact, {after - spread, after, after + spread}, input.now_ms, 0);
  }
  if (prediction)
    prediction->assumptions.emplace_back("every thread of the job gets a CPU core when it needs one");
  return prediction;
}

}  // namespace gpuwatch::advise
