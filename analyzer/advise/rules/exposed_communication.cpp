// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyzer/advise/communication.h"
#include "analyzer/advise/kernel_gains.h"
#include "analyzer/advise/rule.h"
#include "analyzer/attribute/device_work.h"

namespace gpuwatch::advise {

extern const Rule kExposedCommunication, kSyncEachMicrobatch;

namespace {

using attribute::Category;
using attribute::Communication;
using Kind = CollectiveKind;

constexpr double kLeastShare = 0.05;
constexpr double kShortNs = 200e3;
constexpr double kManyCollectives = 10;
constexpr double kFewCollectives = 2;
constexpr int kLargeBucketMb = 100, kSmallBucketMb = 10;  // DistributedDataParallel's default is 25

constexpr Threshold kThresholds[] = {
    {"exposed communication", kLeastShare, "of the step", "XProf's lower band"},
    {"mean collective, below which there are too many of them", kShortNs, "ns",
     "latency and start of a collective take tens of microseconds"},
    {"collectives for that", kManyCollectives, "a step", "fewer are buckets, not single gradients"},
    {"collectives, up to which one bucket holds most gradients", kFewCollectives, "a step",
     "it can only be sent when the last of its gradients is there"},
    kLeastGain,
};

std::string_view largest_collective(const attribute::DeviceWork& work) {
  for (const attribute::KernelTime& kernel : work.kernels)
    if (kernel.kernel_class == model::KernelClass::kCommunication) return kernel.name;
  return {};
}

Kind kind_by_calls(const RuleInput& input) {
  std::map<Kind, model::Ns> time;
  for (const model::Thread& thread : input.process.threads)
    for (const model::HostCall& call : thread.calls)
      if (call.op_class == trace::OpClass::Collective)
        time[collective_kind(input.run.operations[call.operation].name)] += call.end - call.begin;
  const auto most = std::ranges::max_element(time, {}, [](const auto& entry) { return entry.second; });
  return most == time.end() ? Kind::kUnknown : most->first;
}

// Collectives of a model that is spread over GPUs for inference are not of gradients.
bool trains(const model::Process& process) {
  return std::ranges::any_of(process.threads, [](const model::Thread& thread) {
    return std::ranges::any_of(thread.calls, [](const model::HostCall& call) {
      return call.op_class == trace::OpClass::OptimizerStep;
    });
  });
}

void name_buckets(Finding& finding, double collectives, double mean_ns) {
  const bool too_many = collectives >= kManyCollectives && mean_ns < kShortNs;
  const bool too_few = collectives <= kFewCollectives;
  if (too_many || too_few) {
    const int bucket = too_many ? kLargeBucketMb : kSmallBucketMb;
    finding.fix.change = NamedChange{"bucket_cap_mb", std::to_string(bucket)};
    finding.fix.summary =
        fmt::format("Set bucket_cap_mb={} in DistributedDataParallel ({})", bucket,
                    too_many ? "fewer, larger collectives"
                             : "the first bucket is sent while the backward pass still runs");
    finding.fix.snippet = fmt::format("model = DistributedDataParallel(model, bucket_cap_mb={})", bucket);
    return;
  }
  finding.fix.change = NamedChange{"register_comm_hook", "bf16_compress_hook"};
  finding.fix.summary =
      "Send gradients in bfloat16 (bf16_compress_hook), or use model.no_sync() and accumulate gradients over "
      "several batches";
  finding.fix.snippet =
      "from torch.distributed.algorithms.ddp_comm_hooks import default_hooks\n"
      "model.register_comm_hook(None, default_hooks.bf16_compress_hook)";
}

void name_fix(Finding& finding, const RuleInput& input, Kind kind, double collectives, double mean_ns) {
  const bool is_torch = is_torch_job(input.process) && trains(input.process);
  if (is_torch && kind == Kind::kAllReduce) return name_buckets(finding, collectives, mean_ns);
  if (is_torch && (kind == Kind::kAllGather || kind == Kind::kReduceScatter)) {
    finding.fix.change = NamedChange{"forward_prefetch", "True"};
    finding.fix.summary =
        "Gather the next layer's parameters earlier (FSDP: forward_prefetch=True, "
        "backward_prefetch=BACKWARD_PRE), or shard within a node only (HYBRID_SHARD)";
    return;
  }
  finding.fix.summary =
      kind == Kind::kExchange
          ? "Start the exchange earlier and compute what does not need it meanwhile (async_op=True, wait() "
            "right before the result is used)"
          : "Start collectives as soon as their input is there, on a stream that runs next to compute, and "
            "send "
            "fewer bytes (lower precision, accumulation over several batches)";
}

// Ranks that compute on the CPU (Gloo, MPI), without what they wait for later ones, and without what
// `sync-each-microbatch` proposes to leave out.
std::optional<Finding> on_host(const RuleInput& input) {
  const double waiting = waiting_for_ranks(input);
  const auto early = kSyncEachMicrobatch.evaluate(input);
  const double communicating = input.rank.share(attribute::Bottleneck::Communication);
  if (communicating <= 0) return std::nullopt;
  const double share = (input.rank.share(Category::CommHost) - (early ? early->lost_share : 0)) *
                       (1 - waiting / communicating);
  if (share < kLeastShare || !trains(input.process)) return std::nullopt;
  Finding finding = make_finding(kExposedCommunication, input, share);
  finding.title = fmt::format(
      "Communication: exchanging gradients between ranks keeps the training thread waiting {:.0f}% of each "
      "step",
      100 * share);
  finding.evidence = {share_evidence(input, Category::CommHost),
                      {"of it, waiting for later ranks", 100 * waiting, "% of the step"}};
  finding.fix.summary =
      "Exchange gradients less often: use a larger batch on each rank, or accumulate over more batches";
  if (is_torch_job(input.process) && !early) {
    finding.fix.change = NamedChange{"no_sync", "True"};
    finding.fix.summary += " (all but the last of a step in model.no_sync())";
  }
  finding.ceiling_speedup = ceiling_without_exchange(input, share);
  return finding;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  const auto found = attribute::communication(input.run, input.rank);
  if (input.rank.wall_ns <= 0) return std::nullopt;
  if (!found) return input.device ? std::nullopt : on_host(input);
  const double steps = double(std::max<size_t>(1, input.rank.steps.size()));
  const double exposed = exposed_share(input, *found);
  if (exposed < kLeastShare) return std::nullopt;

  Finding finding = make_finding(kExposedCommunication, input, exposed);
  finding.title = fmt::format(
      "Communication: collectives keep compute waiting for {:.0f}% of each step; {:.0f}% of their time "
      "is hidden behind compute",
      100 * exposed, 100 * found->hidden_share());
  const attribute::DeviceWork work = attribute::device_work(input.run, input.rank);
  const std::string_view largest = largest_collective(work);
  Kind kind = collective_kind(largest);
  if (kind == Kind::kUnknown) kind = kind_by_calls(input);
  const double collectives = double(found->count) / steps;
  const double mean_ns = double(found->ns) / double(std::max<size_t>(1, found->count));
  finding.evidence = {{"exposed communication", 100 * exposed, "% of the step"},
                      {"communication hidden behind compute", 100 * found->hidden_share(), "% of its time"},
                      {"collectives", collectives, "a step"},
                      {"mean collective", mean_ns / 1e6, "ms, with the time it waits for slower ranks"}};
  name_fix(finding, input, kind, collectives, mean_ns);
  finding.ceiling_speedup = ceiling_without_communication(input, exposed);
  return finding;
}

}  // namespace

const Rule kExposedCommunication{
    "exposed-communication",
    "Collectives run while the GPU computes nothing: the step waits for communication between ranks.",
    "Kernels of NCCL, RCCL or another library of collectives run and no other kernel does. Without a GPU, "
    "the training thread waits in Gloo or MPI, and not for a late rank. Communication behind "
    "which compute runs costs nothing and is not counted. A collective's time includes waiting for the "
    "slowest rank: where the other ranks were recorded, that is left out; one rank's trace does not tell.",
    "Overlap gradients with the backward pass: smaller buckets (`bucket_cap_mb`) where one bucket holds most "
    "of them, "
    "larger ones where there are many short collectives. Send less: `bf16_compress_hook`, `no_sync()` with "
    "gradient "
    "accumulation. FSDP: `forward_prefetch`, `backward_prefetch`, `HYBRID_SHARD`. If one rank is slower than "
    "the "
    "others, speed that one up first.",
    kThresholds,
    evaluate,
    {attribute::Category::CommTransfer, attribute::Category::CommWaitPeer, attribute::Category::CommUnsplit,
     attribute::Category::CommHost}};

}  // namespace gpuwatch::advise
