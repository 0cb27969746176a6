// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace gpuwatch::cli {

bool is_terminal(int fd) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return isatty(fd) && !(no_color && *no_color) && !(term && std::string_view(term) == "dumb");
}

size_t terminal_width(int fd) {
  constexpr size_t kDefaultWidth = 100;
  winsize size{};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kDefaultWidth;
}

}  // namespace gpuwatch::cli
