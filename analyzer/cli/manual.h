// SPDX-License-Identifier: Apache-2.0
// The manual page gpuwatch(1), in the macros of man(7).
#pragma once

#include <string>
#include <vector>

#include "analyzer/cli/command_table.h"

namespace gpuwatch::cli {

std::string manual(const std::vector<CommandWords>& table, const std::string& version);

}  // namespace gpuwatch::cli
