// SPDX-License-Identifier: Apache-2.0
// What the machine gave the job while it took its recorded steps, from the samples that the rank made about
// once a second. Shares are of wall time, rates a second, CPU time in cores. Pure functions.
#pragma once

#include <optional>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

struct MachineUse {
  double wall_s = 0;           // between the first and the last sample within the steps
  double cores = 0;            // of the machine
  double job_cores = 0;        // used by this run on this machine, all ranks, with its workers
  double worker_cores = 0;     // of those, by workers
  double other_cores = 0;      // used by processes that are not of this run
  double throttled_share = 0;  // summed over CPUs: may exceed 1
  double steal_share = 0;      // of the CPU time that anybody on the machine asked for
  double steal_cores = 0;      // of the whole machine, asked for and not given
  double run_delay_share = 0;  // the training thread could have run and had no CPU
  double cpu_stall_share = 0, memory_stall_share = 0, io_stall_share = 0;  // PSI "some"
  double swap_in_bytes_s = 0, major_faults_s = 0;
  double least_memory_available_bytes = 0;  // 0: not known
  double most_shm_used_bytes = 0;
};

// nullopt: fewer than two samples within the recorded steps.
std::optional<MachineUse> machine_use(const RuleInput& input);

// CPUs that the container's quota allows; 0: no quota, or not known.
double cpu_quota(const model::Process& process);

// A number among the recorded facts; 0 where it is none.
double number_fact(const model::Process& process, const char* key);

// A share of its time below which a shortage of CPU is no cause: an idle machine shows 1 to 3 % run delay,
// and 5 % is the lower band of XProf and TensorBoard.
inline constexpr double kLeastThrottled = 0.05;
inline constexpr double kLeastSteal = 0.05;

// What of a share of wall time that the host lost the step can get back: not the time in which the device
// worked on. Less than kLeastLost is no gain worth a finding.
double recoverable_share(const RuleInput& input, double lost_share);
inline constexpr double kLeastLost = 1 - 1 / kLeastSpeedup;

// The step with all the CPU that the job asks for: workers share `cores`, and the training thread is never
// kept from running, as it was for `input`'s run delay.
std::optional<predict::Prediction> prediction_with_cpu(const RuleInput& input, const MachineUse& use,
                                                       double cores);

}  // namespace gpuwatch::advise
