// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "analyzer/advise/machine.h"
#include "analyzer/advise/remedy_words.h"
#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

extern const Rule kGpuIdleOthers;

namespace {

using attribute::Category;
using attribute::Group;

constexpr double kLeastBusy = 0.50;
constexpr uint32_t kMostUtilization = 5;
constexpr double kMostMemoryMib = 1024;

constexpr Threshold kThresholds[] = {
    {"time with a kernel running on the GPU in use", kLeastBusy, "of the step",
     "below it something other than the GPU is the bottleneck, and a second one would idle too"},
    {"utilization of the other GPU in every sample", kMostUtilization, "%",
     "more is another job's, or a desktop's"},
    {"memory in use on the other GPU in every sample", kMostMemoryMib, "MiB",
     "the driver and an idle process's context take less; more belongs to another job"},
};

// GPUs that this run uses on this machine, by CUDA's numbers of a process that sees them all.
std::set<uint32_t> used_devices(const RuleInput& input) {
  std::set<uint32_t> used;
  for (const model::Process& process : input.run.processes) {
    if (process.host != input.process.host) continue;
    for (const model::Device& device : process.devices)
      if (!device.operations.empty()) used.insert(device.ordinal);
  }
  return used;
}

// GPUs that this process sees and that nothing used whenever NVML was asked. Not asked: cannot tell.
size_t idle_devices(const RuleInput& input, const std::set<uint32_t>& used) {
  std::map<uint32_t, bool> is_idle;
  for (const model::DeviceSample& sample : input.process.device_samples) {
    if (used.contains(sample.device)) continue;
    const bool is_free = sample.is_unused && sample.utilization_percent <= kMostUtilization &&
                         sample.other_processes == 0 && sample.memory_bytes > 0 &&
                         double(sample.memory_used_bytes) <= kMostMemoryMib * (1 << 20);
    is_idle[sample.device] = is_idle.try_emplace(sample.device, true).first->second && is_free;
  }
  return size_t(std::ranges::count_if(is_idle, [](const auto& device) { return device.second; }));
}

// Each rank sees only its own GPU where the launcher gave it that one: then ordinals do not tell GPUs apart.
bool sees_all(const RuleInput& input) {
  const double visible = number_fact(input.process, "cuda_devices");
  return visible > 1 && std::ranges::all_of(input.run.processes, [&](const model::Process& process) {
           return !process.is_rank() || process.host != input.process.host ||
                  number_fact(process, "cuda_devices") == visible;
         });
}

void name_fix(Finding& finding, const RuleInput& input, size_t gpus) {
  finding.fix.change = NamedChange{"nproc_per_node", std::to_string(gpus)};
  finding.fix.summary =
      speaks_torch(input.process)
          ? fmt::format("Train with DistributedDataParallel on {} GPUs: torchrun --nproc_per_node={} {}",
                        gpus, gpus, input.process.script.empty() ? "train.py" : "the script")
          : fmt::format("Start one process for each of the {} GPUs and average gradients with NCCL", gpus);
  if (speaks_torch(input.process))
    finding.fix.snippet = "model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[local_rank])";
}

std::optional<Finding> evaluate(const RuleInput& input) {
  const double compute = input.rank.share(Category::Compute);
  if (!input.device || !input.rank.device_observed || compute < kLeastBusy || !sees_all(input))
    return std::nullopt;
  const std::set<uint32_t> used = used_devices(input);
  const size_t idle = idle_devices(input, used);
  if (idle == 0 || used.empty()) return std::nullopt;
  // The batches are divided among more GPUs; waiting for data is not.
  const double kept = double(used.size()) / double(used.size() + idle);
  const double lost = (1 - input.rank.share(Group::Input)) * (1 - kept);
  Finding finding = make_finding(kGpuIdleOthers, input, lost);
  finding.title =
      fmt::format("Idle GPUs: the job uses {} of {:.0f} visible GPUs, {} of the others {} no work",
                  used.size(), number_fact(input.process, "cuda_devices"), idle, idle == 1 ? "has" : "have");
  finding.evidence = {{"GPUs without any process", double(idle), "on this machine"},
                      {"GPUs in use by this run", double(used.size()), "on this machine"},
                      {"GPU compute", 100 * compute, "% of the step"}};
  name_fix(finding, input, used.size() + idle);
  finding.ceiling_speedup = 1 / (1 - lost);
  return finding;
}

}  // namespace

const Rule kGpuIdleOthers{"gpu-idle-others",
                          "The machine has more GPUs than the job uses, and nothing else uses them.",
                          "CUDA shows the process several GPUs, kernels run on fewer of them, and NVML saw "
                          "no process, no utilization and next to no memory in use on the others in any "
                          "sample. GPUs that another job uses are left alone, and so are those that were "
                          "not sampled.",
                          "One rank for each GPU: `torchrun --nproc_per_node=N` with "
                          "DistributedDataParallel. The upper bound is for the same work divided among all "
                          "GPUs, without communication.",
                          kThresholds,
                          evaluate,
                          {attribute::Category::Compute}};

}  // namespace gpuwatch::advise
