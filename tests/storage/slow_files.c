// SPDX-License-Identifier: Apache-2.0
// Makes the files below one folder as slow as a disk or a server: a library to preload behind libgpuwatch.so,
// whose hooks then see calls that block. Everything else keeps its speed.
//   SLOW_FILES_FOLDER    absolute, no symbolic links, no trailing slash
//   SLOW_FILES_OPEN_US   an open takes at least this long; so do SLOW_FILES_READ_US and SLOW_FILES_STAT_US
//   SLOW_FILES_MIB_S     bytes of all processes together; they queue in the file SLOW_FILES_QUEUE (8 bytes)
// Waiting is sleeping in the kernel, by a raw system call: no CPU is used, and no hook sees it but the one
// around the delayed call. Not delayed: reads inside libc (fread of a C program), memory maps, writes.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define FDS 65536

static const char* g_folder;
static size_t g_folder_length;
static int64_t g_open_ns, g_read_ns, g_stat_ns;
static double g_ns_a_byte;
static _Atomic int64_t* g_free_at;  // when the last byte asked for so far will have come
static _Atomic char g_is_slow[FDS];

static int64_t number(const char* name) {
  const char* text = getenv(name);
  return text ? atoll(text) : 0;
}

static void fail(const char* what) {
  dprintf(2, "slow_files: %s: %s\n", what, strerror(errno));
  _exit(125);
}

__attribute__((constructor)) static void set_up(void) {
  g_folder = getenv("SLOW_FILES_FOLDER");
  if (!g_folder) return;
  g_folder_length = strlen(g_folder);
  g_open_ns = number("SLOW_FILES_OPEN_US") * 1000;
  g_read_ns = number("SLOW_FILES_READ_US") * 1000;
  g_stat_ns = number("SLOW_FILES_STAT_US") * 1000;
  const char* rate = getenv("SLOW_FILES_MIB_S");
  if (!rate || atof(rate) <= 0) return;
  g_ns_a_byte = 1e9 / (atof(rate) * (1 << 20));
  const char* queue = getenv("SLOW_FILES_QUEUE");
  const int fd = queue ? (int)syscall(SYS_openat, AT_FDCWD, queue, O_RDWR | O_CLOEXEC) : -1;
  if (fd < 0) fail("SLOW_FILES_QUEUE");
  g_free_at = mmap(NULL, sizeof *g_free_at, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (g_free_at == MAP_FAILED) fail("SLOW_FILES_QUEUE");
  syscall(SYS_close, fd);
}

static int64_t now_ns(void) {
  struct timespec now;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static void sleep_until(int64_t end) {
  const int kept = errno;
  const struct timespec until = {end / 1000000000, end % 1000000000};
  while (syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == -1 && errno == EINTR) {
  }
  errno = kept;
}

// When `bytes` that are asked for now will have come through the one line to the storage.
static int64_t arrival(int64_t now, ssize_t bytes) {
  if (!g_free_at || bytes <= 0) return now;
  int64_t free_at = atomic_load(g_free_at), end;
  do {
    end = (free_at > now ? free_at : now) + (int64_t)((double)bytes * g_ns_a_byte);
  } while (!atomic_compare_exchange_weak(g_free_at, &free_at, end));
  return end;
}

static int is_below(const char* path) {
  return g_folder && strncmp(path, g_folder, g_folder_length) == 0 &&
         (path[g_folder_length] == '/' || path[g_folder_length] == 0);
}

// Also when the path is relative, or leads through a symbolic link.
static int fd_is_below(int fd) {
  char link[32], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = syscall(SYS_readlink, link, path, sizeof path - 1);
  if (length <= 0) return 0;
  path[length] = 0;
  return is_below(path);
}

static int is_slow(int fd) {
  return fd >= 0 && fd < FDS && atomic_load_explicit(&g_is_slow[fd], memory_order_relaxed);
}

static void finish_open(int fd, int64_t begin) {
  if (fd < 0 || fd >= FDS || !g_folder) return;
  const int kept = errno;
  const int slow = fd_is_below(fd);
  atomic_store_explicit(&g_is_slow[fd], (char)slow, memory_order_relaxed);
  if (slow && g_open_ns) sleep_until(begin + g_open_ns);
  errno = kept;
}

static void finish_read(int fd, int64_t begin, ssize_t bytes) {
  if (!is_slow(fd) || bytes < 0) return;
  const int64_t end = arrival(begin, bytes) + g_read_ns;
  if (end > begin) sleep_until(end);
}

static void finish_stat(const char* path, int64_t begin) {
  char whole[4096];
  if (!g_stat_ns || !path) return;
  if (path[0] != '/' && getcwd(whole, sizeof whole - 1)) {
    const size_t length = strlen(whole);
    snprintf(whole + length, sizeof whole - length, "/%s", path);
    path = whole;
  }
  if (is_below(path)) sleep_until(begin + g_stat_ns);
}

// Found at the first call, which may come before the constructor.
#define NEXT(name)                                                         \
  static _Atomic(void*) found;                                             \
  if (!atomic_load(&found)) atomic_store(&found, dlsym(RTLD_NEXT, #name)); \
  __typeof__(&name) next = (__typeof__(&name))atomic_load(&found);         \
  const int64_t begin = now_ns()

#define MODE(flags)                                            \
  mode_t mode = 0;                                             \
  if (((flags)&O_CREAT) || ((flags)&O_TMPFILE) == O_TMPFILE) { \
    va_list rest;                                              \
    va_start(rest, flags);                                     \
    mode = va_arg(rest, mode_t);                               \
    va_end(rest);                                              \
  }

#define OPEN(name)                             \
  int name(const char* path, int flags, ...) { \
    NEXT(name);                                \
    MODE(flags)                                \
    const int fd = next(path, flags, mode);    \
    finish_open(fd, begin);                    \
    return fd;                                 \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                   \
  int name(int at, const char* path, int flags, ...) { \
    NEXT(name);                                        \
    MODE(flags)                                        \
    const int fd = next(at, path, flags, mode);        \
    finish_open(fd, begin);                            \
    return fd;                                         \
  }
OPENAT(openat)
OPENAT(openat64)

#define READ(name, params, args)     \
  ssize_t name params {              \
    NEXT(name);                      \
    const ssize_t bytes = next args; \
    finish_read(fd, begin, bytes);   \
    return bytes;                    \
  }
READ(read, (int fd, void* to, size_t size), (fd, to, size))
READ(pread, (int fd, void* to, size_t size, off_t at), (fd, to, size, at))
READ(pread64, (int fd, void* to, size_t size, off64_t at), (fd, to, size, at))
READ(readv, (int fd, const struct iovec* to, int count), (fd, to, count))
READ(preadv, (int fd, const struct iovec* to, int count, off_t at), (fd, to, count, at))
READ(preadv64, (int fd, const struct iovec* to, int count, off64_t at), (fd, to, count, at))

#define STAT(name, params, args)  \
  int name params {               \
    NEXT(name);                   \
    const int result = next args; \
    finish_stat(path, begin);     \
    return result;                \
  }
STAT(stat, (const char* path, struct stat* to), (path, to))
STAT(lstat, (const char* path, struct stat* to), (path, to))
STAT(stat64, (const char* path, struct stat64* to), (path, to))
STAT(lstat64, (const char* path, struct stat64* to), (path, to))
STAT(fstatat, (int at, const char* path, struct stat* to, int flags), (at, path, to, flags))
STAT(fstatat64, (int at, const char* path, struct stat64* to, int flags), (at, path, to, flags))

// The number may be given to another file next, by a call that is not seen here (a socket, a pipe).
int close(int fd) {
  NEXT(close);
  (void)begin;
  if (fd >= 0 && fd < FDS) atomic_store_explicit(&g_is_slow[fd], 0, memory_order_relaxed);
  return next(fd);
}
