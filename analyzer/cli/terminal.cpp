// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/terminal.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace gpuwatch::cli {
namespace {

bool has_colors(int fd) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return isatty(fd) && !(no_color && *no_color) && !(term && std::string_view(term) == "dumb");
}

// The first of these that is set decides (POSIX, Environment Variables 8.2).
bool is_utf8_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (!value || !*value) continue;
    return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
  }
  return false;
}

}  // namespace

report::TextStyle text_style(int fd) {
  report::TextStyle style{.colors = has_colors(fd), .unicode = is_utf8_locale()};
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) style.width = size.ws_col;
  return style;
}

}  // namespace gpuwatch::cli
