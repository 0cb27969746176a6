// SPDX-License-Identifier: Apache-2.0
// LD_PRELOAD is split at blanks and colons. A library below a folder with such a name is preloaded by a
// symbolic link in a folder of the user's own.
#pragma once

#include <string>

namespace gpuwatch::cli {

// The library's path itself where LD_PRELOAD can hold it, else a link's. The link stays: programs that the
// job starts later preload it too. Throws io::UserError where no folder for it can be made.
std::string preloadable_path(const std::string& library);

}  // namespace gpuwatch::cli
