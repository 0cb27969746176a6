// SPDX-License-Identifier: Apache-2.0
#include "analyzer/attribute/peer_wait.h"

#include <algorithm>
#include <string_view>

#include "analyzer/model/stacks.h"

namespace gpuwatch::attribute {
namespace {

using model::HostCall;
using model::Ns;

// Python packages whose functions wait for other ranks.
constexpr std::string_view kCommunication[] = {"/torch/distributed/", "/horovod/", "/deepspeed/comm/",
                                               "/mpi4py/"};
// DistributedDataParallel reduces gradients inside of backward; on a CPU, whose backward runs on the thread
// that called it, nothing else lets that thread wait.
constexpr std::string_view kBackward[] = {"/torch/autograd/graph.py", "/torch/autograd/__init__.py",
                                          "/torch/nn/parallel/distributed.py"};
// ProcessGroupGloo's threads, which run its collectives.
constexpr std::string_view kGlooThread = "pt_gloo_runloop";

bool holds_any(std::string_view text, std::span<const std::string_view> parts) {
  return std::ranges::any_of(parts, [&](std::string_view part) { return text.find(part) != text.npos; });
}

// A job whose launcher told it no number of ranks has peers if it made gloo's threads.
bool has_peers(const model::Process& process, bool has_gloo) {
  return process.world_size > 1 || (process.world_size < 0 && has_gloo);
}

}  // namespace

PeerWait::PeerWait(const ProcessView& view) : view_(view) {
  const std::vector<model::Thread>& threads = view.process().threads;
  for (uint32_t i = 0; i < threads.size(); ++i)
    if (threads[i].name.starts_with(kGlooThread)) gloo_threads_.push_back(i);
  has_peers_ = has_peers(view.process(), !gloo_threads_.empty());
}

PeerWait::Said PeerWait::said_by(const std::string& stack) const {
  const std::string_view innermost = std::string_view(stack).substr(0, stack.find('\n'));
  if (innermost.find("/torch/utils/data/") != innermost.npos) return Said::kOther;
  if (holds_any(stack, kCommunication)) return Said::kPeers;
  if (view_.feeding_threads().empty() && holds_any(innermost, kBackward)) return Said::kPeers;
  const std::vector<model::StackFrame> frames = model::frames_of(stack);
  const bool is_scripts = !frames.empty() && model::is_users(frames.front());
  return is_scripts ? Said::kNothing : Said::kOther;
}

// A thread of gloo worked within the call and was done when it ended: before, it waited for peers or for work
// to do, and afterwards for work. While the call waits for something else, these threads wait throughout.
bool PeerWait::ended_collective(const HostCall& call) const {
  constexpr Ns kWakeUp = 1'000'000;  // the woken thread may come first, and gloo's ends its own work after it
  for (const uint32_t thread : gloo_threads_) {
    const Activity& activity = view_.activity(thread);
    const size_t last = activity.index_at(call.end + kWakeUp);
    for (size_t i = last + 1; i-- > 0 && activity[i].end > call.begin;) {
      const Stretch stretch = activity[i];
      const bool is_within = stretch.begin > call.begin && stretch.begin < call.end;
      if (stretch.call == model::kNone && is_within && stretch.end >= call.end - kWakeUp) return true;
      if (stretch.end < call.end - kWakeUp) break;
    }
  }
  return false;
}

bool PeerWait::is_for_peers(uint32_t thread, uint32_t index) {
  if (!has_peers_) return false;
  const HostCall& call = view_.call(thread, index);
  const std::string* stack = model::stack_of(view_.run(), view_.thread(thread), call);
  if (stack) {
    const auto [known, is_new] = known_.try_emplace(stack, Said::kNothing);
    if (is_new) known->second = said_by(*stack);
    if (known->second != Said::kNothing) return known->second == Said::kPeers;
  }
  return ended_collective(call);
}

}  // namespace gpuwatch::attribute
