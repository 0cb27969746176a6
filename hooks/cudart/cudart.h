// SPDX-License-Identifier: Apache-2.0
// The source `cuda`: calls of the CUDA runtime. Thread safety: any.
#pragma once

namespace gpuwatch::hooks::cudart {

void on_recording() noexcept;     // once per trace file
void on_driver_start() noexcept;  // the driver is being initialized, whoever asked for it: starts the
                                  // recording

}  // namespace gpuwatch::hooks::cudart
