// SPDX-License-Identifier: Apache-2.0
// How many loader workers the machine carries: by the CPU time that they ask for, which is little where they
// sleep or wait for storage, and by the shared memory that their batches take. Pure functions.
#pragma once

#include <string>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

struct WorkerBound {
  int most = kMostWorkers;
  int most_idle = kMostWorkers;  // where they wait for each other and leave cores idle
  std::string cause;             // "a worker computes 95% of its time, and there are 2 CPU cores"
};

// CPU cores that this rank may use: of the affinity mask or the quota, its share.
double cores_of_rank(const RuleInput& input);

// CPU time that a worker asks for while it makes a batch, with that of threads that libraries start in it:
// above 1 it keeps more than a core busy. What is not known to be waiting counts.
double cpu_share(const RuleInput& input, const predict::LoaderReplayInput& loader);

// At `setting`'s prefetch_factor. Never below the recorded number of workers, which ran.
WorkerBound worker_bound(const RuleInput& input, const predict::LoaderReplayInput& loader,
                         const predict::LoaderSetting& setting);

// Workers take memory and start-up time: a count within 1% of the best is as good.
inline constexpr double kWithinBestCount = 1.01;
inline constexpr double kBusyWorkers = 0.95;  // of the time: no slack for a slow batch

// The smallest count, at least 1, that is as good as any up to the bound.
int best_workers(const RuleInput& input, const predict::LoaderReplayInput& loader,
                 predict::LoaderSetting setting);

// What a rule changes: the recorded setting with what earlier findings changed of it.
predict::LoaderSetting setting_before(const RuleInput& input, const predict::LoaderReplayInput& loader);

// The largest prefetch_factor up to `most` whose batches fit into shared memory.
int most_prefetched(const RuleInput& input, const predict::LoaderSetting& setting, int most);

}  // namespace gpuwatch::advise
