// SPDX-License-Identifier: Apache-2.0
// Page faults that a malloc which keeps freed memory would spare (rules/page_faults.cpp). Pure functions.
#pragma once

#include <optional>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

// Of the CPU time; less is not worth a finding.
inline constexpr double kLeastSparedOfCpu = 0.08;
// Of what the spared faults took, measured: 0.76 to 0.94 in eight jobs (the kernel works for others, too, and
// a heap that is kept is walked through).
inline constexpr double kSpared = 0.9, kLeastSpared = 0.7, kMostSpared = 1.05;

struct SparedFaults {
  double per_batch = 0, batch_pages = 0;  // all faults; pages of its tensors
  double batch_bytes = 0;
  double page_ns = 0;  // what a fault takes on this machine
  double of_cpu = 0;   // of the CPU time of workers, what the faults took that need not be
};

// Of the loader's workers, where keeping the memory is predicted to be worth a finding: before more or faster
// cores are. Empty where it is assumed already.
std::optional<SparedFaults> spared_faults_of_workers(const RuleInput& input);

// The loader with workers that need so much less of their CPU time.
predict::LoaderSetting with_kept_memory(const RuleInput& input, double of_cpu);

// Neither another malloc (jemalloc, tcmalloc) nor one that was told how much to keep.
bool is_malloc_of_glibc_as_it_comes(const model::Process& process);

// First begin to last end.
model::TimeSpan steps_of(const RuleInput& input);

}  // namespace gpuwatch::advise
