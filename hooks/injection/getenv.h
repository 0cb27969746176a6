// SPDX-License-Identifier: Apache-2.0
// The getenv hook: answers the injection variables of CUDA and NVTX with this library's path. Thread safety:
// any.
#pragma once

namespace gpuwatch::hooks::injection {

void arm() noexcept;  // from the library's constructor; before it, getenv answers as if we were not there

}  // namespace gpuwatch::hooks::injection
