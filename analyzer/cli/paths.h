// SPDX-License-Identifier: Apache-2.0
// Where the programs of this installation are. Throws io::UserError when the library is not beside them.
#pragma once

#include <string>

namespace gpuwatch::cli {

std::string own_directory();  // of the running executable

// ../lib/libgpuwatch.so (or lib64, or the multiarch folder) seen from the executable; "" if there is none.
std::string find_library();
std::string library();  // the same; throws instead of ""

}  // namespace gpuwatch::cli
