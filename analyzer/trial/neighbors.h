// SPDX-License-Identifier: Apache-2.0
// CPU time that programs which are none of ours took of this machine, as the kernel counts it: /proc/stat
// against the CPU time of this process and of all that it started and waited for. Call while no process of
// the job is left: only what has ended is counted. Not safe beside other children of this process.
#pragma once

#include <chrono>

namespace gpuwatch::trial {

class Neighbors {
 public:
  Neighbors();  // from now on

  double cores() const;  // mean since then, the hypervisor's part included; 0 where the machine does not tell

 private:
  struct CpuTime {
    double machine_s = 0, ours_s = 0;
  };
  static CpuTime cpu_time();

  std::chrono::steady_clock::time_point start_;
  CpuTime before_;
};

}  // namespace gpuwatch::trial
