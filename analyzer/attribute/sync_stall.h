// SPDX-License-Identifier: Apache-2.0
// Calls that make the host wait until the device has nothing left to do, and which category such a wait
// belongs to: a synchronization right after a copy to the device on the same stream is part of a blocking
// copy, a copy of a few bytes from the device is a synchronization.
#pragma once

#include <optional>

#include "analyzer/attribute/attribution.h"
#include "analyzer/attribute/process_view.h"

namespace gpuwatch::attribute {

// A copy from the device up to this size takes less time on any link (3 us at 20 GB/s) than the wait for it:
// it is there for the wait (`.item()`, `print(loss)`), not for the bytes.
inline constexpr uint64_t kFewBytes = 64 << 10;

struct SyncStall {
  Category category;
  uint32_t thread;
  uint32_t call;
  model::Ns host_waited_ns;  // how long the host had been waiting when the device ran dry
};

// Synchronizations and copies from the device; nullopt for others. cudaFree and copies from pageable memory
// may wait for the device too, but their own cost is what they are there for, and is shown as such.
std::optional<Category> sync_stall_category(const ProcessView& view, uint32_t thread, uint32_t call);

// The waiting call that `thread` was in when the device ran dry at `time`.
std::optional<SyncStall> sync_stall_at(const ProcessView& view, uint32_t thread, model::Ns time);

}  // namespace gpuwatch::attribute
