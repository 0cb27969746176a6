// SPDX-License-Identifier: Apache-2.0
// A file that is kept open inside a job that knows nothing of it. A daemonising job closes every descriptor
// it finds, and may since have opened a file of its own at our number: nothing is read from or written to a
// kept descriptor without looking at what it is (0.3 us).
//
// Thread safety: none of its own; two threads that both find the file lost keep the last one's. Signal
// safety: yes. errno is kept.
#pragma once

#include <sys/types.h>

namespace gpuwatch::base {

struct Descriptor {
  int fd;        // or negative
  bool is_kept;  // else whoever got it closes it
};

void close_unless_kept(const Descriptor& file) noexcept;

class KeptFile {
 public:
  constexpr KeptFile() noexcept = default;
  // Takes `fd` over: moves it out of the way of programs that expect the lowest numbers to be theirs, closed
  // on exec. Where there is no high number (RLIMIT_NOFILE) it is not kept: a job that may open four files
  // needs the fourth.
  Descriptor keep(int fd) noexcept;
  // Negative where none is kept, or what has its number now is another file.
  Descriptor kept() const noexcept;
  // Whether `fd` is the file that keep() was last given.
  bool is_same_file(int fd) const noexcept;
  // Forgets which file it was; closed, if it still is open.
  void release() noexcept;

 private:
  int fd_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace gpuwatch::base
