// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "analyzer/advise/device_samples.h"
#include "analyzer/advise/machine.h"
#include "analyzer/advise/remedy_words.h"

namespace gpuwatch::advise {

extern const Rule kGpuShared;

namespace {

using attribute::Category;
using attribute::Group;

constexpr double kLeastOther = 0.10;
constexpr double kLeastDifference = 0.20;
constexpr double kLeastSlicedCompute = 0.50;
constexpr double kAllSlices = 7;

constexpr Threshold kThresholds[] = {
    {"time that other processes compute on the GPU", kLeastOther, "of the time",
     "a desktop or a monitor stays below; NVML reports whole percents of a sample period"},
    {"GPU utilization beyond this job's own", kLeastDifference, "of the time",
     "where NVML does not tell processes apart; its sample period of up to a second blurs the difference"},
    {"time with a kernel running, on a MIG slice", kLeastSlicedCompute, "of the step",
     "below it something other than the GPU is the bottleneck"},
    kEnoughDeviceSamples,
};

struct Others {
  double processes = 0, memory_bytes = 0;  // the most that were seen
  double busy = 0;                         // mean share of the time
  bool is_by_process = false;              // else the difference of utilization and the job's own
};

std::optional<Others> other_processes(const RuleInput& input) {
  Others others;
  double by_process = 0, utilization = 0;
  size_t known = 0, with_others = 0;
  const DeviceSamples samples = samples_in_steps(input);
  if (samples.size() < kLeastDeviceSamples) return std::nullopt;
  for (const model::DeviceSample* sample : samples) {
    with_others += sample->other_processes > 0;
    others.processes = std::max(others.processes, double(sample->other_processes));
    others.memory_bytes = std::max(others.memory_bytes, double(sample->other_memory_bytes));
    utilization += sample->utilization_percent / 100.0;
    if (!sample->other_utilization_percent) continue;
    ++known;
    by_process += std::min(1.0, *sample->other_utilization_percent / 100.0);
  }
  if (2 * with_others < samples.size()) return std::nullopt;
  others.is_by_process = 2 * known >= samples.size();
  const double own = input.rank.device_observed ? input.rank.share(Group::DeviceBusy) : 1;
  others.busy = others.is_by_process ? by_process / double(known)
                                     : std::max(0.0, utilization / double(samples.size()) - own);
  return others;
}

std::optional<Finding> shared_with_processes(const RuleInput& input) {
  const auto others = other_processes(input);
  if (!others || others->busy < (others->is_by_process ? kLeastOther : kLeastDifference)) return std::nullopt;
  // While another process computes, this one's kernels wait or share: no more of the time can be won back.
  const double lost = std::min(input.rank.share(Category::Compute), others->busy);
  if (lost < kLeastLost) return std::nullopt;
  Finding finding = make_finding(kGpuShared, input, lost);
  finding.title =
      fmt::format("Shared GPU: {:.0f} other process{} compute{} on it {:.0f}% of the time", others->processes,
                  others->processes == 1 ? "" : "es", others->processes == 1 ? "s" : "", 100 * others->busy);
  finding.evidence = {{"time that other processes compute on the GPU", 100 * others->busy, "% of the time"},
                      {"GPU compute of this job", 100 * input.rank.share(Category::Compute), "% of the step"},
                      {"other processes", others->processes, "on the GPU"}};
  if (others->memory_bytes > 0)
    finding.evidence.push_back({"their GPU memory", others->memory_bytes / (1 << 20), "MiB"});
  finding.fix.change = NamedChange{"GPU", "exclusive use"};
  finding.fix.summary =
      "Move this job or the other processes (nvidia-smi lists them) to another GPU, or run them one after "
      "the other";
  finding.ceiling_speedup = 1 / (1 - std::min(lost, 0.95));
  return finding;
}

bool sees_the_same(const model::Process& a, const model::Process& b) {
  const auto visible = [](const model::Process& process) {
    const auto fact = process.facts.find("CUDA_VISIBLE_DEVICES");
    return fact == process.facts.end() ? std::string() : fact->second;
  };
  return a.host == b.host && visible(a) == visible(b);
}

// The share of the recorded steps' span in which a process had a kernel on this GPU.
double busy_share(const RuleInput& input, const model::Process& process) {
  const model::TimeSpan steps{input.rank.steps.front().step.begin, input.rank.steps.back().step.end};
  model::Ns busy = 0, until = steps.begin;
  for (const model::Device& device : process.devices) {
    if (device.ordinal != input.device->ordinal) continue;
    for (const model::DeviceOp& op : device.operations) {
      if (op.kind != trace::RecordKind::Kernel) continue;
      const model::Ns end = std::min(op.end, steps.end);
      busy += std::max<model::Ns>(0, end - std::max(op.begin, until));
      until = std::max(until, end);
    }
  }
  return steps.length() > 0 ? double(busy) / double(steps.length()) : 0;
}

// Ranks that forgot to take a GPU each.
std::optional<Finding> shared_with_ranks(const RuleInput& input) {
  double busy = 0, ranks = 0;
  for (const model::Process& other : input.run.processes) {
    if (&other == &input.process || !other.is_rank() || !sees_the_same(other, input.process)) continue;
    const double share = busy_share(input, other);
    busy += share;
    ranks += share >= kLeastOther;
  }
  if (ranks == 0) return std::nullopt;
  const double lost = std::min({input.rank.share(Category::Compute), busy, 0.95});
  if (lost < kLeastLost) return std::nullopt;
  Finding finding = make_finding(kGpuShared, input, lost);
  finding.title = fmt::format("Shared GPU: {:.0f} ranks of this job compute on the same GPU (number {})",
                              ranks + 1, input.device->ordinal);
  finding.evidence = {
      {"ranks on this GPU", ranks + 1, "ranks"},
      {"time that the other ranks compute on it", 100 * std::min(busy, 1.0), "% of the time"},
      {"GPU compute of this rank", 100 * input.rank.share(Category::Compute), "% of the step"}};
  finding.fix.change = NamedChange{"device", "cuda:LOCAL_RANK"};
  finding.fix.summary =
      "Give each rank its own GPU: torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"])) before "
      "anything "
      "else uses CUDA, and no more ranks than GPUs";
  finding.fix.snippet = "torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"]))";
  if (auto words = remedy_words(input.process, Remedy::kOwnGpu)) {
    finding.fix.change = NamedChange{std::move(words->setting), std::move(words->value)};
    finding.fix.summary = std::move(words->summary);
    finding.fix.snippet = std::move(words->snippet);
  }
  finding.ceiling_speedup = 1 / (1 - lost);
  return finding;
}

// "NVIDIA A100-SXM4-40GB MIG 2g.10gb" has 2 of 7 slices. 0: no slice.
int compute_slices(const std::string& name) {
  const size_t mig = name.find(" MIG ");
  if (mig == std::string::npos) return 0;
  int slices = 0;
  const char *begin = name.data() + mig + 5, *end = name.data() + name.size();
  const auto [after, error] = std::from_chars(begin, end, slices);
  const bool is_known = error == std::errc() && after < end && (*after == 'g' || *after == 'c');
  return is_known && slices > 0 ? slices : 0;
}

std::optional<Finding> slice_of_a_gpu(const RuleInput& input) {
  const int slices = compute_slices(input.device->name);
  const double compute = input.rank.share(Category::Compute);
  if (slices == 0 || slices >= kAllSlices || compute < kLeastSlicedCompute) return std::nullopt;
  const double lost = compute * (1 - slices / kAllSlices);
  Finding finding = make_finding(kGpuShared, input, lost);
  finding.title =
      fmt::format("Slice of a GPU: the job computes on {} of {:.0f} MIG slices {:.0f}% of each step", slices,
                  kAllSlices, 100 * compute);
  finding.evidence = {{"compute slices", double(slices), "of 7"},
                      {"GPU compute", 100 * compute, "% of the step"},
                      {"SMs", double(input.device->multiprocessors), "in the slice"}};
  finding.fix.change = NamedChange{"MIG slice", "larger"};
  finding.fix.summary = "Ask for a larger MIG slice or a whole GPU (nvidia-smi mig -lgip lists the sizes)";
  finding.ceiling_speedup = 1 / (1 - lost);
  return finding;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (!input.device || input.rank.steps.empty()) return std::nullopt;
  if (auto finding = shared_with_ranks(input)) return finding;
  if (auto finding = shared_with_processes(input)) return finding;
  return slice_of_a_gpu(input);
}

}  // namespace

const Rule kGpuShared{
    "gpu-shared",
    "Another process computes on the same GPU, ranks share one, or the job has only a MIG slice of it.",
    "NVML lists compute processes outside this run in most samples, and they compute: by NVML's utilization "
    "of each process or, where processes cannot be distinguished (a container without the host's process "
    "ids), by a utilization of the GPU beyond what this job's kernels account for. A process that only "
    "holds memory is no finding. Ranks share a GPU if they see the same GPUs and run kernels on the same "
    "number. A MIG slice shows in the GPU's name.",
    "Exclusive use of the GPU, one GPU for each rank, or a larger slice.",
    kThresholds,
    evaluate,
    {attribute::Category::Compute}};

}  // namespace gpuwatch::advise
