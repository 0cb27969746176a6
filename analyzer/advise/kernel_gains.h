// SPDX-License-Identifier: Apache-2.0
// What faster GPU work could gain, by parts of a step's kernels that one change would remove or speed up. An
// upper bound is given only where one follows from what was recorded. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

struct KernelGain {
  std::string what;             // "FP32 matmuls without tensor cores"
  double share = 0;             // of the step
  std::string change;           // an imperative: "use torch.compile"
  std::optional<double> bound;  // speedup of the step, at most
  std::string reason;           // why no more than that; empty without a bound
};

struct KernelGains {
  std::vector<KernelGain> parts;  // largest bound first, then by share
  std::optional<double> bound;    // of all together; nullopt if one of them has none
  double double_share = 0;        // of the step, in FP64 matmuls
};

inline constexpr double kLeastKernelShare = 0.05;

// Of the step with at least one kernel running: from there on the GPU is the limit. TraceML calls this
// compute-bound, and MLPerf Storage asks it of a good input pipeline.
inline constexpr double kGpuIsTheLimit = 0.90;

// Parts of at least kLeastKernelShare of the step.
KernelGains kernel_gains(const RuleInput& input);

// PyTorch's words fit: the process imports it, or its trace is torch.profiler's.
bool is_torch_job(const model::Process& process);

}  // namespace gpuwatch::advise
