// SPDX-License-Identifier: Apache-2.0
// PyTorch's switches for debugging that no environment variable shows: anomaly mode, a running profiler. Each
// that is found on becomes a fact, once. Thread safety: the GIL must be held. Signal safety: none.
#pragma once

#include <cstdint>

namespace gpuwatch::hooks::python {

// Asks PyTorch at most once a second, 1 us; else a load and a compare. `now` in ticks.
void note_debug_switches(uint64_t now) noexcept;

}  // namespace gpuwatch::hooks::python
