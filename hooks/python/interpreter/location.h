// SPDX-License-Identifier: Apache-2.0
// Where in the user's program a Python call came from: the innermost frame that is neither a library's
// (site-packages, dist-packages, the standard library) nor the interpreter's own, as "file:line". Where a
// program consists of libraries only (`python -m package.train`), the innermost frame outside torch.
//
// Thread safety: the GIL must be held; reads this thread's own frames. About 0.3 us a frame. Signal safety:
// none.
#pragma once

#include "libinject/base/text.h"

namespace gpuwatch::hooks::python {

using Location = base::Text<512>;

Location users_location() noexcept;  // empty if there is none

// Neither a library's file nor the interpreter's.
bool is_users_file(const char* path) noexcept;

}  // namespace gpuwatch::hooks::python
