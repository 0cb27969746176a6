// SPDX-License-Identifier: Apache-2.0
// The process's environment as facts in the trace: an allow-list of environment variables that change how
// training runs, and the number of GPUs. No other variable is read.
#pragma once

namespace gpuwatch::hooks {

void write_environment() noexcept;  // once per trace file

}  // namespace gpuwatch::hooks
