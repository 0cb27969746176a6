// SPDX-License-Identifier: Apache-2.0
// Where the process's libraries lie, so that the analyzer can name the line behind a recorded return address.
// Cold: takes the loader's lock. Thread safety: any. Not for signal handlers.
#pragma once

namespace gpuwatch::hooks {

// Writes a Module table for every loaded object, unless nothing was loaded since the last call.
void write_modules() noexcept;

}  // namespace gpuwatch::hooks
