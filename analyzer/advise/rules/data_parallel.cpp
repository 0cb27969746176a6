// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/remedy_words.h"
#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

extern const Rule kDataParallel;

namespace {

using attribute::Category;
using attribute::Group;
using model::Ns;

constexpr double kLeastSteps = 0.50;
constexpr double kSameWork = 0.80;
constexpr double kLeastOverlap = 0.20;

constexpr Threshold kThresholds[] = {
    {"steps in which the model is sent to the other GPUs", kLeastSteps, "of the steps",
     "nn.DataParallel does it in each forward pass; at start-up every trainer does it once"},
    {"kernels on the GPU with fewest of them", kSameWork, "of those on the one with most",
     "parts of a model on several GPUs run different numbers of kernels"},
    {"time with kernels on two GPUs at once", kLeastOverlap, "of the busiest GPU's kernel time",
     "parts of a model run one after the other"},
    kLeastGain,
};

struct DeviceWork {
  std::vector<model::TimeSpan> kernels;  // within the recorded steps, without communication; in order
  double kernel_ns = 0;                  // at least one running
  std::vector<Ns> model_sent;            // broadcasts that ran here, or copies from another GPU
};

bool is_broadcast(const model::Kernel& kernel) {
  return kernel.is_communication && kernel.name.find("Broadcast") != std::string::npos;
}

double covered_ns(const std::vector<model::TimeSpan>& spans) {
  double sum = 0;
  Ns until = 0;
  for (const model::TimeSpan& span : spans) {
    sum += double(std::max<Ns>(0, span.end - std::max(span.begin, until)));
    until = std::max(until, span.end);
  }
  return sum;
}

// Peer copies are those that are neither to, nor from, nor within the host and one GPU.
DeviceWork work_of(const RuleInput& input, const model::Device& device, model::TimeSpan steps) {
  DeviceWork work;
  for (const model::DeviceOp& op : device.operations) {
    if (op.begin < steps.begin || op.begin >= steps.end) continue;
    if (op.kind == trace::RecordKind::CopyOther) work.model_sent.push_back(op.begin);
    if (op.kind != trace::RecordKind::Kernel) continue;
    const bool is_known = op.kernel < input.run.kernels.size();
    if (is_known && is_broadcast(input.run.kernels[op.kernel])) work.model_sent.push_back(op.begin);
    if (!is_known || !input.run.kernels[op.kernel].is_communication)
      work.kernels.push_back({op.begin, op.end});
  }
  work.kernel_ns = covered_ns(work.kernels);
  return work;
}

size_t steps_with(const RuleInput& input, const std::vector<Ns>& times) {
  size_t steps = 0;
  auto next = times.begin();
  for (const attribute::StepAttribution& step : input.rank.steps) {
    next = std::lower_bound(next, times.end(), step.step.begin);
    steps += next != times.end() && *next < step.step.end;
  }
  return steps;
}

// Time in which both compute.
double overlap_ns(const DeviceWork& a, const DeviceWork& b) {
  std::vector<model::TimeSpan> both = a.kernels;
  both.insert(both.end(), b.kernels.begin(), b.kernels.end());
  std::ranges::sort(both, {}, &model::TimeSpan::begin);
  return a.kernel_ns + b.kernel_ns - covered_ns(both);
}

struct Replicas {
  size_t gpus = 0;
  double busiest_ns = 0;
  size_t steps_sent = 0;
};

// nullopt: not one process that sends its model to several GPUs, which then do the same work at once.
std::optional<Replicas> replicas_of(const RuleInput& input) {
  const model::TimeSpan steps{input.rank.steps.front().step.begin, input.rank.steps.back().step.end};
  std::vector<DeviceWork> works;
  for (const model::Device& device : input.process.devices) {
    DeviceWork work = work_of(input, device, steps);
    if (!work.kernels.empty()) works.push_back(std::move(work));
  }
  if (works.size() < 2) return std::nullopt;
  const auto by_count = [](const DeviceWork& a, const DeviceWork& b) {
    return a.kernels.size() < b.kernels.size();
  };
  const auto [fewest, most] = std::ranges::minmax_element(works, by_count);
  if (double(fewest->kernels.size()) < kSameWork * double(most->kernels.size())) return std::nullopt;

  Replicas replicas{works.size()};
  std::vector<Ns> sent;
  for (const DeviceWork& work : works) {
    replicas.busiest_ns = std::max(replicas.busiest_ns, work.kernel_ns);
    sent.insert(sent.end(), work.model_sent.begin(), work.model_sent.end());
  }
  std::ranges::sort(sent);
  replicas.steps_sent = steps_with(input, sent);
  if (double(replicas.steps_sent) < kLeastSteps * double(input.rank.steps.size())) return std::nullopt;
  return overlap_ns(works[0], works[1]) >= kLeastOverlap * replicas.busiest_ns ? std::optional(replicas)
                                                                               : std::nullopt;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (input.process.devices.size() < 2 || input.process.world_size > 1 || input.rank.steps.empty() ||
      input.rank.wall_ns <= 0)
    return std::nullopt;
  const auto replicas = replicas_of(input);
  if (!replicas) return std::nullopt;
  // What is left with one process for each GPU: the compute of the busiest, and the waiting for data.
  const double busiest = std::min(1.0, replicas->busiest_ns / double(input.rank.wall_ns));
  const double lost = std::max(0.0, 1 - busiest - input.rank.share(Group::Input));
  if (lost < 1 - 1 / kLeastSpeedup) return std::nullopt;

  Finding finding = make_finding(kDataParallel, input, lost);
  finding.title = fmt::format(
      "DataParallel: one process drives {} GPUs and sends them the model in each step, the busiest computes "
      "{:.0f}% of each step",
      replicas->gpus, 100 * busiest);
  finding.evidence = {{"GPUs driven by one process", double(replicas->gpus), "GPUs"},
                      {"compute of the busiest GPU", 100 * busiest, "% of the step"},
                      {"steps in which the model is sent", double(replicas->steps_sent), "steps"}};
  finding.fix.change = NamedChange{"nproc_per_node", std::to_string(replicas->gpus)};
  const bool is_torch = speaks_torch(input.process);
  finding.fix.summary =
      is_torch ? fmt::format(
                     "Replace nn.DataParallel by DistributedDataParallel and start one process for each "
                     "GPU: torchrun --nproc_per_node={}",
                     replicas->gpus)
               : "Start one process for each GPU that keeps its copy of the model, and average gradients "
                 "with NCCL";
  if (is_torch)
    finding.fix.snippet = "model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[local_rank])";
  finding.ceiling_speedup = 1 / (1 - std::min(lost, 0.99));
  return finding;
}

}  // namespace

const Rule kDataParallel{
    "data-parallel",
    "One process drives several GPUs (`nn.DataParallel`): each step sends the model to them and collects "
    "outputs and gradients on one of them, while one Python interpreter launches all kernels.",
    "Several GPUs of one process run the same number of kernels at the same time, and in most steps NCCL "
    "broadcasts or copies from GPU to GPU run. Parts of a model on several GPUs run one after the other; "
    "strategies that only reduce gradients (MirroredStrategy, pmap) do not broadcast.",
    "DistributedDataParallel with one process for each GPU. Upper bound: only the compute of the busiest "
    "GPU and the waiting for data are left.",
    kThresholds,
    evaluate,
    attribute::CategorySet(attribute::Bottleneck::Host) |
        attribute::CategorySet(attribute::Bottleneck::Copy) |
        attribute::CategorySet(attribute::Bottleneck::Communication) |
        attribute::CategorySet(attribute::Bottleneck::Compute)};

}  // namespace gpuwatch::advise
