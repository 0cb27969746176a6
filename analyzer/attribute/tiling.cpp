// SPDX-License-Identifier: Apache-2.0
#include "analyzer/attribute/tiling.h"

#include <algorithm>

namespace gpuwatch::attribute {

void Tiling::fill(model::Ns end, const Cause& cause) {
  if (end <= cursor_) return;
  if (!slices_.empty()) {
    Slice& last = slices_.back();
    if (Cause{last.category, last.thread, last.call, last.stream} == cause) {
      last.end = cursor_ = end;
      return;
    }
  }
  slices_.push_back({cursor_, end, cause.category, cause.thread, cause.call, cause.stream});
  cursor_ = end;
}

model::Ns Tiling::fill_at_most(model::Ns end, model::Ns limit_ns, const Cause& cause) {
  const model::Ns length = std::min(end - cursor_, limit_ns);
  if (length <= 0) return 0;
  fill(cursor_ + length, cause);
  return length;
}

}  // namespace gpuwatch::attribute
