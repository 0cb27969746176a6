// SPDX-License-Identifier: Apache-2.0
// A file that is readable by its owner alone, as traces are: it has the names and paths that they have.
// Throws io::UserError, which names the option that asked for the file.
#pragma once

#include <functional>
#include <ostream>
#include <string>

namespace gpuwatch::cli {

void write_private_file(const std::string& option, const std::string& path,
                        const std::function<void(std::ostream&)>& write);

}  // namespace gpuwatch::cli
