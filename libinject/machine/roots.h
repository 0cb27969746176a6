// SPDX-License-Identifier: Apache-2.0
// Where the kernel tells about itself. A parameter of whatever reads there, so that tests can show it the
// trees of other machines; never taken from the environment. Thread safety: constant.
#pragma once

#include <cstring>

#include "libinject/base/text.h"

namespace gpuwatch::machine {

struct Roots {
  const char* proc = "/proc";
  const char* sys = "/sys";
};

using FilePath = base::Text<512>;

// root/name, "/proc" and "meminfo" for example.
inline FilePath below(const char* root, const char* name) noexcept {
  FilePath path;
  path.add(root).add('/').add(name);
  return path;
}

// A path that is kept: in a constant-initialised global, where a FilePath cannot be. Empty if it
// would be cut.
class KeptPath {
 public:
  constexpr KeptPath() noexcept = default;
  KeptPath& operator=(const FilePath& path) noexcept {
    text_[0] = 0;
    if (!path.was_cut()) std::memcpy(text_, path.c_str(), path.size() + 1);
    return *this;
  }
  const char* c_str() const noexcept { return text_; }
  bool is_empty() const noexcept { return text_[0] == 0; }

 private:
  char text_[512] = {};
};

}  // namespace gpuwatch::machine
