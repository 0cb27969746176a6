// SPDX-License-Identifier: Apache-2.0
// What a file descriptor can show. Colours only on a terminal, and not where NO_COLOR or TERM=dumb ask for
// none.
#pragma once

#include <cstddef>

namespace gpuwatch::cli {

bool is_terminal(int fd);
size_t terminal_width(int fd);  // columns; 100 where there is no terminal

}  // namespace gpuwatch::cli
