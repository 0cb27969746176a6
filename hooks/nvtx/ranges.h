// SPDX-License-Identifier: Apache-2.0
// Open ranges: of a thread (push and pop, nested for each domain) and of the process (start and end, by id,
// on any two threads). A range becomes one record when it ends; a range still open when the process ends
// leaves none. Thread safety: any; no lock, no allocation after a thread's second level. A forked child
// starts with none open: its parent's ranges are the parent's. Times in ticks.
#pragma once

#include <cstdint>

#include "hooks/nvtx/nvtx_api.h"

namespace gpuwatch::hooks::nvtx {

// All that was given with an event.
struct Event {
  uint32_t name = 0;    // Text ids
  uint32_t domain = 0;  // 0: the default one
  uint32_t category = 0;
  uint32_t category_name = 0;
  uint64_t payload = 0;
  uint8_t payload_type = 0;  // 0: none
};

struct OpenRange {
  uint64_t begin = 0;
  Event event;
};

// The number of ranges of this domain that this thread had open before.
int push(const Event& event, uint64_t now) noexcept;
// False if this thread has no range of the domain open. `depth`: how many it has open then.
bool pop(uint32_t domain, OpenRange* range, int* depth) noexcept;

// `id` is not 0. A range without room is counted as dropped.
void open(RangeId id, const Event& event, uint64_t now) noexcept;
// False for an id that is not open. `thread`: who opened it.
bool close(RangeId id, OpenRange* range, uint32_t* thread) noexcept;

}  // namespace gpuwatch::hooks::nvtx
