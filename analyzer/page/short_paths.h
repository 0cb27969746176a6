// SPDX-License-Identifier: Apache-2.0
// A report that is passed on should not tell where its author keeps files: of a path in any text, the name of
// the file stays, of a package's file also its place in the package. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "analyzer/model/run.h"

namespace gpuwatch::page {

// Folders of the run, which may have spaces in their names; longest first, "/" at the end of each.
std::vector<std::string> known_folders(const model::Run& run);

std::string with_short_paths(std::string text, const std::vector<std::string>& folders);

// In all strings of it.
void shorten_paths(nlohmann::ordered_json& document, const std::vector<std::string>& folders);

}  // namespace gpuwatch::page
