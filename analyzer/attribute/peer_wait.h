// SPDX-License-Identifier: Apache-2.0
// Waits of a thread for other ranks that no hooked function of NCCL shows: gloo, MPI and the stores of
// torch.distributed wait on condition variables and sockets. Told by the Python stack of the call; where that
// ends in the script's own line (work.wait()) or was not recorded (stacks are rationed), by gloo's own
// thread, which finishes a collective, wakes the waiting thread and waits for the next one.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "analyzer/attribute/process_view.h"

namespace gpuwatch::attribute {

class PeerWait {
 public:
  explicit PeerWait(const ProcessView& view);

  // `call` is one that waits for another thread, or for data of a peer. Not thread-safe (it caches).
  bool is_for_peers(uint32_t thread, uint32_t call);

 private:
  enum class Said { kPeers, kOther, kNothing };
  Said said_by(const std::string& stack) const;
  bool ended_collective(const model::HostCall& call) const;

  const ProcessView& view_;
  std::vector<uint32_t> gloo_threads_;
  bool has_peers_ = false;
  std::unordered_map<const std::string*, Said> known_;  // by stack
};

}  // namespace gpuwatch::attribute
