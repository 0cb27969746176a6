// SPDX-License-Identifier: Apache-2.0
#include "libinject/base/file_search.h"

#include <fcntl.h>

#include <cstring>

#include "libinject/base/syscall.h"

namespace gpuwatch::base {

bool file_has(const char* path, const char* wanted, size_t size, SearchBuffer& buffer) noexcept {
  const int fd = sys_open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  buffer[0] = 0;
  size_t kept = 1;
  bool found = false;
  while (!found) {
    const ssize_t n = sys_read(fd, buffer + kept, sizeof buffer - kMostSearched);
    if (n <= 0) break;
    const size_t have = kept + static_cast<size_t>(n);
    found = memmem(buffer, have, wanted, size) != nullptr;
    kept = have < size ? have : size - 1;
    std::memmove(buffer, buffer + have - kept, kept);
  }
  sys_close(fd);
  return found;
}

}  // namespace gpuwatch::base
