// SPDX-License-Identifier: Apache-2.0
// Keeps errno as it was: the job must not see what we did between its calls.
#pragma once

#include <cerrno>

namespace gpuwatch::base {

class ErrnoGuard {
 public:
  ErrnoGuard() noexcept : before_(errno) {}
  ~ErrnoGuard() noexcept { errno = before_; }
  ErrnoGuard(const ErrnoGuard&) = delete;
  ErrnoGuard& operator=(const ErrnoGuard&) = delete;

 private:
  int before_;
};

}  // namespace gpuwatch::base
