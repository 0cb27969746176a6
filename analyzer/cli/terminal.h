// SPDX-License-Identifier: Apache-2.0
// What a file descriptor can show.
#pragma once

#include "analyzer/report/report.h"

namespace gpuwatch::cli {

// Colors only on a terminal, and not where NO_COLOR or TERM=dumb ask for none; arrows and dashes beyond ASCII
// only where the locale (LC_ALL, LC_CTYPE, LANG) is UTF-8; 80 columns where there is no terminal.
report::TextStyle text_style(int fd);

}  // namespace gpuwatch::cli
