// SPDX-License-Identifier: Apache-2.0
// What PyTorch reads from the GPU by itself where the host waits, so that "call .item() less often" is no
// remedy: a GradScaler whether gradients overflowed, an operation how large its result is (x[mask],
// nonzero()). The first is told by the stacks of the waits, the second by the kernel that counts. Pure
// functions.
#pragma once

#include <string>
#include <vector>

#include "analyzer/advise/sync_places.h"

namespace gpuwatch::advise {

struct SyncReads {
  bool has_own = false;               // the script's own .item(), .cpu() or print
  std::vector<std::string> remedies;  // of the others, most frequent first; imperatives
  bool has_shapes = false;            // one of them: sizes of results
  bool has_overflow = false;          // one of them: a GradScaler's check
};

// Each from a tenth of the waits at these places on. Requires `input.streams` and `device`.
SyncReads sync_reads(const RuleInput& input, const std::vector<SyncPlace>& places);

}  // namespace gpuwatch::advise
