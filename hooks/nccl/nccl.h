// SPDX-License-Identifier: Apache-2.0
// The source `nccl`: calls of NCCL. Thread safety: any.
#pragma once

namespace gpuwatch::hooks::nccl {

void on_recording() noexcept;  // once per trace file

}  // namespace gpuwatch::hooks::nccl
