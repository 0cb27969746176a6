// SPDX-License-Identifier: Apache-2.0
// CPU, memory and I/O that the job got during its recorded steps, from the machine samples that the rank took
// about once a second. Shares are of wall time, rates are per second, CPU time is in cores. Pure functions.
#pragma once

#include <optional>

#include "analyzer/advise/rule.h"
#include "analyzer/model/facts.h"

namespace gpuwatch::advise {

struct MachineUse {
  double wall_s = 0;             // between the first and the last sample within the steps
  double cores = 0;              // of the machine
  double job_cores = 0;          // used by this run on this machine, all ranks, with its workers
  double worker_cores = 0;       // of those, by workers
  double other_child_cores = 0;  // of those, by other processes that it started
  double other_cores = 0;        // used by processes that are not of this run
  double throttled_share = 0;    // summed over CPUs: may exceed 1
  double steal_share = 0;        // of the CPU time requested on the machine
  double steal_cores = 0;        // requested on the machine, withheld by the hypervisor
  double run_delay_share = 0;    // training thread runnable but not running
  double cpu_stall_share = 0, memory_stall_share = 0, io_stall_share = 0;  // PSI "some"
  double swap_in_bytes_s = 0, major_faults_s = 0;
  double least_memory_available_bytes = 0;  // 0: not known
  double most_shm_used_bytes = 0;
};

// nullopt: fewer than two samples within the recorded steps.
std::optional<MachineUse> machine_use(const RuleInput& input);

// The job's processes on this machine use most of the cores that they may use together: some always wait for
// the slower of two processes.
bool fills_cores(const RuleInput& input, const MachineUse& use);
inline constexpr double kFullCores = 0.85;  // of them

// Of the step, what training would save if the cores were its own: where workers and training fill them, it
// hardly waits, and computes as much more slowly as they take of them. Workers of a job on two cores took 0.8
// of them; training waited for data 8% of the step, and was 1.65 times as fast without their work. 0 where
// they do not, or workers take less than a third of it, unless they delay training: of a job whose training
// waited for a core 27% of the step, a worker took 0.5 of 1.9 cores, and it was 2.0 times as fast without.
double worker_share_of_cores(const RuleInput& input, const MachineUse& use);
inline constexpr double kLeastOfCpu = 1.0 / 3;      // of the CPU time of the job
inline constexpr double kLeastCoreWait = 0.15;      // of the step, training waits for a core
inline constexpr double kLeastOfDelayed = 1.0 / 6;  // of the CPU time of a job that is delayed

// CPU cores that the container's quota allows; 0: no quota, or not known.
double cpu_quota(const model::Process& process);

using model::number_fact;

// Below these shares of the time, a shortage of CPU is not reported: an idle machine shows 1 to 3% run delay,
// and XProf and TensorBoard's profiler report bottlenecks from 5%.
inline constexpr double kLeastThrottled = 0.05;
inline constexpr double kLeastSteal = 0.05;

// Of a share of wall time that the host lost, the part that a change can win back: at most the time that the
// GPU idles. Less than kLeastLost is not worth a finding.
double recoverable_share(const RuleInput& input, double lost_share);
inline constexpr double kLeastLost = 1 - 1 / kLeastSpeedup;

// The step time if workers share `cores` CPU cores and the training thread never waits for a core.
std::optional<predict::Prediction> prediction_with_cpu(const RuleInput& input, const MachineUse& use,
                                                       double cores);

}  // namespace gpuwatch::advise
