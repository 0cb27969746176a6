// SPDX-License-Identifier: Apache-2.0
// `gpuwatch doctor`: what can be seen on this machine, and why not where it cannot. Reads the file system and
// asks the Python on the PATH; changes nothing.
#pragma once

#include <string>

namespace gpuwatch::cli {

std::string doctor();

}  // namespace gpuwatch::cli
