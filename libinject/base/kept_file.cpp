// SPDX-License-Identifier: Apache-2.0
#include "libinject/base/kept_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "libinject/base/syscall.h"

namespace gpuwatch::base {

void close_unless_kept(const Descriptor& file) noexcept {
  if (file.fd >= 0 && !file.is_kept) sys_close(file.fd);
}

Descriptor KeptFile::keep(int fd) noexcept {
  struct stat about;
  if (!is_same_file(fd) && sys_fstat(fd, &about) == 0) {
    device_ = about.st_dev;
    inode_ = about.st_ino;
  }
  const long high = raw_syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 200);
  if (high < 0) return {fd, false};
  sys_close(fd);
  fd_ = static_cast<int>(high);
  return {fd_, true};
}

Descriptor KeptFile::kept() const noexcept {
  const int fd = fd_;  // another thread may keep a new one meanwhile: what was looked at is what is returned
  return fd >= 0 && is_same_file(fd) ? Descriptor{fd, true} : Descriptor{-1, false};
}

bool KeptFile::is_same_file(int fd) const noexcept {
  struct stat now;
  return sys_fstat(fd, &now) == 0 && now.st_dev == device_ && now.st_ino == inode_;
}

void KeptFile::release() noexcept {
  if (const Descriptor file = kept(); file.fd >= 0) sys_close(file.fd);
  *this = KeptFile();
}

}  // namespace gpuwatch::base
