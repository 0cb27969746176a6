// SPDX-License-Identifier: Apache-2.0
#include "analyzer/attribute/peer_wait.h"

#include <algorithm>
#include <string_view>

#include "analyzer/model/stacks.h"

namespace gpuwatch::attribute {
namespace {

// Python packages whose functions wait for other ranks.
constexpr std::string_view kCommunication[] = {"/torch/distributed/", "/horovod/", "/deepspeed/comm/",
                                               "/mpi4py/"};
// DistributedDataParallel reduces gradients inside of backward; on a CPU, whose backward runs on the thread
// that called it, nothing else lets that thread wait.
constexpr std::string_view kBackward[] = {"/torch/autograd/graph.py", "/torch/autograd/__init__.py",
                                          "/torch/nn/parallel/distributed.py"};

bool holds_any(std::string_view text, std::span<const std::string_view> parts) {
  return std::ranges::any_of(parts, [&](std::string_view part) { return text.find(part) != text.npos; });
}

}  // namespace

bool PeerWait::names_communication(const std::string& stack) const {
  const std::string_view innermost = std::string_view(stack).substr(0, stack.find('\n'));
  if (innermost.find("/torch/utils/data/") != innermost.npos) return false;
  if (holds_any(stack, kCommunication)) return true;
  return view_.feeding_threads().empty() && holds_any(innermost, kBackward);
}

bool PeerWait::is_for_peers(uint32_t thread, uint32_t call) {
  if (view_.process().world_size <= 1) return false;
  const std::string* stack = model::stack_of(view_.run(), view_.thread(thread), view_.call(thread, call));
  if (!stack) return false;
  const auto [known, is_new] = known_.try_emplace(stack, false);
  if (is_new) known->second = names_communication(*stack);
  return known->second;
}

}  // namespace gpuwatch::attribute
