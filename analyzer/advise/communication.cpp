// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/communication.h"

#include <algorithm>

#include "analyzer/advise/ceiling.h"
#include "analyzer/attribute/device_work.h"

namespace gpuwatch::advise {

double waiting_for_ranks(const RuleInput& input) {
  if (!input.group || input.rank.mean_step_ms() <= 0) return 0;
  const auto& members = input.group->members;
  const auto own = std::ranges::find(members, input.rank.process, &attribute::GroupMember::process);
  if (own == members.end()) return 0;
  return std::min(own->waiting_ms / input.rank.mean_step_ms(),
                  input.rank.share(attribute::Bottleneck::Communication));
}

bool reduces(std::string_view kernel) {
  for (const char* part :
       {"AllReduce", "all_reduce", "allreduce", "Reduce_", "ReduceScatter", "reduce_scatter"})
    if (kernel.find(part) != std::string_view::npos) return true;
  return false;
}

double ceiling_without_communication(const RuleInput& input, double exposed) {
  if (!input.assumed_streams) return 1 / (1 - std::min(exposed, 0.99));
  predict::StreamReplayInput changed = *input.assumed_streams;
  const std::vector<uint16_t> classes = attribute::classes_of(input.run, *input.device);
  for (predict::StreamOp& op : changed.ops)
    if (op.device_op < classes.size() &&
        classes[op.device_op] == static_cast<uint16_t>(model::KernelClass::kCommunication))
      op.duration_ns = 0;
  return ceiling_without(input, exposed, changed);
}

}  // namespace gpuwatch::advise
