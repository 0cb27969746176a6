// SPDX-License-Identifier: Apache-2.0
// Waits of a thread for other ranks that no hooked function of NCCL shows: gloo, MPI and the stores of
// torch.distributed wait on condition variables and sockets. Told by the Python stack of the call.
#pragma once

#include <unordered_map>

#include "analyzer/attribute/process_view.h"

namespace gpuwatch::attribute {

class PeerWait {
 public:
  explicit PeerWait(const ProcessView& view) : view_(view) {}

  // `call` is one that waits for another thread, or for data of a peer. Not thread-safe (it caches).
  bool is_for_peers(uint32_t thread, uint32_t call);

 private:
  bool names_communication(const std::string& stack) const;

  const ProcessView& view_;
  std::unordered_map<const std::string*, bool> known_;  // by stack
};

}  // namespace gpuwatch::attribute
