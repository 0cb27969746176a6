// SPDX-License-Identifier: Apache-2.0
// The source `nvtx`: ranges and marks that programs report through NVTX. Thread safety: any.
#pragma once

namespace gpuwatch::hooks::nvtx {

void on_recording() noexcept;  // once per trace file

}  // namespace gpuwatch::hooks::nvtx
