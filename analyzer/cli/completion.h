// SPDX-License-Identifier: Apache-2.0
// Scripts by which a shell completes gpuwatch's commands and options. After `run` and `try`, the words of the
// job's own command are completed as that command's would be.
#pragma once

#include <string>
#include <vector>

#include "analyzer/cli/command_table.h"

namespace gpuwatch::cli {

// For "bash", "zsh" or "fish"; throws io::UserError for any other.
std::string completion(const std::vector<CommandWords>& table, const std::string& shell);

}  // namespace gpuwatch::cli
