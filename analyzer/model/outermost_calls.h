// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "analyzer/model/run.h"

namespace gpuwatch::model {

// Calls of a class on a thread that are not inside another one of that class.
template <typename Wanted>
std::vector<const HostCall*> outermost(const Thread& thread, Wanted wanted) {
  std::vector<const HostCall*> calls;
  for (const auto& call : thread.calls) {
    if (wanted(call) && (calls.empty() || call.begin >= calls.back()->end)) calls.push_back(&call);
  }
  return calls;
}

}  // namespace gpuwatch::model
