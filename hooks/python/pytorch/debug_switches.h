// SPDX-License-Identifier: Apache-2.0
// PyTorch's switches for debugging that no environment variable shows: anomaly mode, a running profiler. Each
// that is found on becomes a fact, once. 1 us. Thread safety: the GIL must be held. Signal safety: none.
#pragma once

namespace gpuwatch::hooks::python {

void note_debug_switches() noexcept;

}  // namespace gpuwatch::hooks::python
