// SPDX-License-Identifier: Apache-2.0
// Packages outside of site-packages: built in their source folder, on PYTHONPATH, installed by `pip install
// -t`. Their folder's name tells them, unless the script lives in it: a project may be called keras. Stack
// texts get a mark behind the function of such a line when the run is built (model/stacks.h reads it),
// because a stack alone does not tell where the script is.
#pragma once

#include <string_view>

#include "analyzer/model/run.h"

namespace gpuwatch::model {

inline constexpr char kPackageMark = '+';

// The last folder of this path that is named like a well-known package; empty: none.
std::string_view known_package(std::string_view file);

void mark_packages(Run& run);

}  // namespace gpuwatch::model
