// SPDX-License-Identifier: Apache-2.0
// Where the programs of this installation are. Throws io::UserError when the library is not beside them.
#pragma once

#include <string>

namespace gpuwatch::cli {

std::string own_directory();  // of the running executable

// ../lib/libgpuwatch.so seen from the executable (or lib64, the multiarch folder, or libexec/gpuwatch, where
// the wheel has it: `pip install --target` drops what a wheel puts into lib); "" if there is none.
std::string find_library();
std::string library();  // the same; throws instead of ""

// LD_PRELOAD for a job: ours first; what the user preloads (an allocator, usually) stays. Throws
// io::UserError where the library's path cannot be written there.
std::string preload_value();

}  // namespace gpuwatch::cli
