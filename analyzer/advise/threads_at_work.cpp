// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/threads_at_work.h"

#include <algorithm>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/machine.h"
#include "analyzer/advise/quick_steps.h"
#include "analyzer/advise/worker_bound.h"

namespace gpuwatch::advise {

using attribute::Category;
using attribute::Group;

bool has_threads_at_work(const RuleInput& input, double in_library) {
  constexpr double kLeastDelay = 0.05, kLeastCores = 0.1;
  const auto use = machine_use(input);
  const double delay = input.rank.share(Category::Sched);
  if (!use || input.ranks_on_host > 1 || delay < kLeastDelay) return false;
  const double cores = cores_of_rank(input), set = number_fact(input.process, "torch_threads");
  const double threads = set > 0 ? std::min(set, cores) : cores;
  const double most = (1 - delay - in_library) * threads + in_library + delay * std::max(0.0, threads - 1);
  return use->job_cores - use->worker_cores - use->other_child_cores >= most + kLeastCores;
}

double ceiling_without_threads(const RuleInput& input, double in_library) {
  constexpr double kLeastLeft = 0.5;
  const double rest = (1 - in_library) * quick_part(input.process, input.rank, Group::Input);
  return ceiling_without(input, 1 - rest * kLeastLeft * kLeastLeft);
}

}  // namespace gpuwatch::advise
