// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/communication.h"

#include <algorithm>

#include "analyzer/advise/ceiling.h"

namespace gpuwatch::advise {
namespace {

constexpr double kMostShare = 0.99;  // a bound without a timeline

}  // namespace

double waiting_for_ranks(const RuleInput& input) {
  if (!input.group || input.rank.mean_step_ms() <= 0) return 0;
  const auto& members = input.group->members;
  const auto own = std::ranges::find(members, input.rank.process, &attribute::GroupMember::process);
  if (own == members.end()) return 0;
  return std::min(own->waiting_ms / input.rank.mean_step_ms(),
                  input.rank.share(attribute::Bottleneck::Communication));
}

CollectiveKind collective_kind(std::string_view name) {
  const auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (has("AllReduce") || has("all_reduce") || has("allreduce") || has("Reduce_"))
    return CollectiveKind::kAllReduce;
  if (has("ReduceScatter") || has("reduce_scatter")) return CollectiveKind::kReduceScatter;
  if (has("AllGather") || has("all_gather") || has("allgather")) return CollectiveKind::kAllGather;
  if (has("SendRecv") || has("all_to_all") || has("alltoall") || has("AllToAll"))
    return CollectiveKind::kExchange;
  return CollectiveKind::kUnknown;
}

double exposed_share(const RuleInput& input, const attribute::Communication& communication) {
  return double(communication.exposed_ns) / double(input.rank.wall_ns) - waiting_for_ranks(input);
}

double ceiling_without_exchange(const RuleInput& input, double waiting) {
  return ceiling_without(input, std::min(2 * waiting, kMostShare));
}

double ceiling_without_communication(const RuleInput& input, double exposed) {
  if (!input.assumed_streams) return 1 / (1 - std::min(exposed, kMostShare));
  predict::StreamReplayInput changed = *input.assumed_streams;
  const std::vector<uint16_t> classes = attribute::classes_of(input.run, *input.device);
  for (predict::StreamOp& op : changed.ops)
    if (op.device_op < classes.size() &&
        classes[op.device_op] == static_cast<uint16_t>(model::KernelClass::kCommunication))
      op.duration_ns = 0;
  return ceiling_without(input, exposed, changed);
}

}  // namespace gpuwatch::advise
