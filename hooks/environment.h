// SPDX-License-Identifier: Apache-2.0
// What of the process's surroundings goes into the trace, as facts: an allow-list of environment variables
// that change how training runs, and how many GPUs the machine has. Nothing else of the environment is looked
// at.
#pragma once

namespace gpuwatch::hooks {

void write_environment() noexcept;  // once per trace file

}  // namespace gpuwatch::hooks
