// SPDX-License-Identifier: Apache-2.0
// Raw system calls. libgpuwatch.so exports open, read, write, poll, ... itself; were its own code to call
// those by name it would land in its own hooks. Results are the kernel's: a value, or -errno. errno is never
// touched. Thread safety: any. Signal safety: yes.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace gpuwatch::base {

#if !defined(__x86_64__)
#error "gpuwatch supports Linux x86-64"
#endif

inline long raw_syscall(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0,
                        long f = 0) noexcept {
  long result;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}

inline long address(const void* pointer) noexcept {
  return reinterpret_cast<long>(pointer);
}

inline int sys_open(const char* path, int flags, int mode = 0) noexcept {
  return static_cast<int>(raw_syscall(SYS_openat, AT_FDCWD, address(path), flags, mode));
}
inline int sys_openat(int directory, const char* path, int flags, int mode = 0) noexcept {
  return static_cast<int>(raw_syscall(SYS_openat, directory, address(path), flags, mode));
}
inline int sys_close(int fd) noexcept {
  return static_cast<int>(raw_syscall(SYS_close, fd));
}
inline ssize_t sys_read(int fd, void* to, size_t bytes) noexcept {
  return raw_syscall(SYS_read, fd, address(to), static_cast<long>(bytes));
}
inline ssize_t sys_write(int fd, const void* from, size_t bytes) noexcept {
  return raw_syscall(SYS_write, fd, address(from), static_cast<long>(bytes));
}
inline ssize_t sys_pread(int fd, void* to, size_t bytes, off_t offset) noexcept {
  return raw_syscall(SYS_pread64, fd, address(to), static_cast<long>(bytes), offset);
}
inline ssize_t sys_pwrite(int fd, const void* from, size_t bytes, off_t offset) noexcept {
  return raw_syscall(SYS_pwrite64, fd, address(from), static_cast<long>(bytes), offset);
}
inline int sys_fallocate(int fd, off_t offset, off_t bytes) noexcept {
  return static_cast<int>(raw_syscall(SYS_fallocate, fd, 0, offset, bytes));
}
inline int sys_fstat(int fd, struct stat* to) noexcept {
  return static_cast<int>(raw_syscall(SYS_fstat, fd, address(to)));
}
inline int sys_mkdir(const char* path, int mode) noexcept {
  return static_cast<int>(raw_syscall(SYS_mkdir, address(path), mode));
}
inline int sys_unlink(const char* path) noexcept {
  return static_cast<int>(raw_syscall(SYS_unlink, address(path)));
}
inline ssize_t sys_readlink(const char* path, char* to, size_t bytes) noexcept {
  return raw_syscall(SYS_readlink, address(path), address(to), static_cast<long>(bytes));
}
inline int sys_getpid() noexcept {
  return static_cast<int>(raw_syscall(SYS_getpid));
}
inline int sys_gettid() noexcept {
  return static_cast<int>(raw_syscall(SYS_gettid));
}

// mmap by name is not hooked, but sanitizers and allocators interpose it.
inline void* sys_mmap(size_t bytes, int protection, int flags, int fd, off_t offset) noexcept {
  const long result = raw_syscall(SYS_mmap, 0, static_cast<long>(bytes), protection, flags, fd, offset);
  return result < 0 && result > -4096 ? nullptr : reinterpret_cast<void*>(result);
}

// Reads a small file (procfs, sysfs) into `to`, NUL-terminated. Bytes read, or -errno.
inline ssize_t read_file(const char* path, char* to, size_t capacity) noexcept {
  const int fd = sys_open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return fd;
  size_t total = 0;
  while (total + 1 < capacity) {
    const ssize_t n = sys_read(fd, to + total, capacity - 1 - total);
    if (n <= 0) break;
    total += static_cast<size_t>(n);
  }
  sys_close(fd);
  to[total] = 0;
  return static_cast<ssize_t>(total);
}

}  // namespace gpuwatch::base
