// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/advise/machine.h"
#include "analyzer/advise/worker_bound.h"
#include "analyzer/model/script_work.h"
#include "analyzer/model/short_lines.h"
#include "analyzer/model/stacks.h"
#include "analyzer/model/training_stacks.h"

namespace gpuwatch::advise {

extern const Rule kIntraOpThreads;

namespace {

using attribute::Category;

constexpr double kLeastLost = 0.10;
constexpr double kHardlyLess = 0.2;  // of a core
constexpr double kComputes = 0.7;    // of the time called compute, on a CPU

constexpr Threshold kThresholds[] = {
    {"stack samples in operations of PyTorch, less what they take on the available cores: at least",
     kLeastLost, "of the step", "few operations divide evenly"},
    {"an available core is free for at least", 1 - kHardlyLess, "of the time",
     "other work takes its part of it otherwise"},
    {"CPU time of the training process", kComputes, "of the time that training computes",
     "less is waiting for something that no hook sees, as for an accelerator of another kind"},
};

// Threads that an operation could have: those that it has, and one for each core that nobody uses.
int most_threads(const RuleInput& input, const MachineUse& use, double threads) {
  const double free = std::max(0.0, use.cores - use.job_cores - use.other_cores) / input.ranks_on_host;
  return int(std::min(std::floor(cores_of_rank(input)), threads + std::floor(free + kHardlyLess)));
}

// Within PyTorch's own Python, and it did not move on: an operation of a layer or of the backward pass. A
// line of the script's may call one as well, or may compute in Python, which has one thread whatever is set.
bool is_in_operation(const model::WorkerStack& sample, const std::vector<model::StackFrame>& frames) {
  return !sample.interprets && !frames.empty() && model::library_of(frames.front()) == "torch";
}

double share_in_operations(const RuleInput& input) {
  const auto computing = attribute::times_of(input.rank, Category::Compute);
  const double operations =
      model::sampled_share_of(input.run, input.process, computing, is_in_operation).share;
  // The backward pass of operations too short for threads is no longer than they are.
  const auto lines = model::short_lines(input.run, input.process, computing);
  const double too_short = lines ? lines->backward * lines->of_forward : 0;
  return input.rank.share(Category::Compute) * std::max(0.0, operations - too_short);
}

std::optional<Finding> evaluate(const RuleInput& input) {
  const double threads = number_fact(input.process, "torch_threads");
  const auto use = machine_use(input);
  if (input.device || input.device_hidden() || threads < 1 || !use) return std::nullopt;
  const int most = most_threads(input, *use, threads);
  if (most <= threads) return std::nullopt;
  const double own = (use->job_cores - use->worker_cores - use->other_child_cores) / input.ranks_on_host;
  if (own < kComputes * input.rank.share(Category::Compute)) return std::nullopt;
  const double operations = share_in_operations(input);
  const double lost = operations * (1 - threads / most);
  if (lost < kLeastLost) return std::nullopt;
  Finding finding = make_finding(kIntraOpThreads, input, lost);
  finding.bottleneck = attribute::Bottleneck::Compute;
  finding.title = fmt::format(
      "CPU threads: PyTorch computes with {:.0f} thread{} for each operation, and {:.1f} of {:.3g} "
      "CPU cores are in use",
      threads, threads < 1.5 ? "" : "s", use->job_cores + use->other_cores, use->cores);
  finding.evidence = {{"threads for each operation", threads, "threads"},
                      {"CPU available to each rank", cores_of_rank(input), "cores"},
                      {"CPU used by this job", use->job_cores, "cores"},
                      {"CPU used by other processes", use->other_cores, "cores"},
                      {"seen in operations of PyTorch", 100 * operations, "% of the step"}};
  finding.fix.change = NamedChange{"torch.set_num_threads", std::to_string(most)};
  finding.fix.summary = fmt::format(
      "Call torch.set_num_threads({0}), or set OMP_NUM_THREADS={0} (torchrun sets 1 where it is not set)",
      most);
  finding.fix.snippet = fmt::format("torch.set_num_threads({})", most);
  finding.ceiling_speedup = 1 / (1 - lost);
  return finding;
}

}  // namespace

const Rule kIntraOpThreads{
    "intra-op-threads",
    "PyTorch computes on fewer threads than there are free CPU cores, on a job that trains without a GPU.",
    "`torch.get_num_threads()` is below the cores that the job may use, and these are free. Only time counts "
    "in which the training thread was seen in PyTorch's own code, and not among operations that are too "
    "short for threads. With more threads than cores the finding is `cpu-contention`.",
    "`torch.set_num_threads()` with the number of cores, or `OMP_NUM_THREADS` in the environment. `torchrun` "
    "sets it to 1 for several processes where it is not set. The order of sums may change, and with it the "
    "last bits of results.",
    kThresholds,
    evaluate,
    {Category::Compute}};

}  // namespace gpuwatch::advise
