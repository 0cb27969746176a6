// SPDX-License-Identifier: Apache-2.0
// A file system that is really mounted and really slow: shows a folder, read-only, with delays. What a
// preload cannot give: another file system type and mount point, reads through memory maps and inside libc, a
// page cache that makes the second reading fast. Speaks the kernel's FUSE protocol itself (linux/fuse.h), so
// it needs no library, and root or another right to mount.
//   slow_fs FOLDER MOUNT_POINT TYPE OPEN_US READ_US STAT_US MIB_S KEEP_CACHE
// TYPE is what /proc/self/mountinfo shall say, "fuse.slowfs". Prints "mounted"; ends when it is unmounted.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define THREADS 16   // requests that wait at the same time
#define NODES 65536  // files that can be looked up
#define REQUEST_BYTES (256 << 10)

static int g_fuse;
static int64_t g_open_ns, g_read_ns, g_stat_ns;
static double g_ns_a_byte;
static int g_keep_cache;

static pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
static char* g_paths[NODES];  // by node number; 1 is the root
static size_t g_nodes = 1;
static int64_t g_free_at;  // when the last byte asked for so far will have come

static void die(const char* what) {
  fprintf(stderr, "slow_fs: %s: %s\n", what, strerror(errno));
  exit(1);
}

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static void sleep_until(int64_t end) {
  const struct timespec until = {end / 1000000000, end % 1000000000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
  }
}

// When bytes that are asked for now will have come through the one line to the storage.
static int64_t arrival(int64_t now, size_t bytes) {
  pthread_mutex_lock(&g_lock);
  const int64_t end = (g_free_at > now ? g_free_at : now) + (int64_t)((double)bytes * g_ns_a_byte);
  g_free_at = end;
  pthread_mutex_unlock(&g_lock);
  return end;
}

static const char* path_of(uint64_t node) {
  return node < NODES ? g_paths[node] : NULL;
}

static uint64_t node_of(const char* path) {
  pthread_mutex_lock(&g_lock);
  uint64_t node = 1;
  while (node <= g_nodes && strcmp(g_paths[node], path) != 0) ++node;
  if (node > g_nodes && node < NODES) g_paths[++g_nodes] = strdup(path);
  pthread_mutex_unlock(&g_lock);
  return node;
}

static void reply(uint64_t unique, int error, const void* data, size_t size) {
  struct fuse_out_header out = {sizeof out + (uint32_t)size, error, unique};
  const struct iovec parts[] = {{&out, sizeof out}, {(void*)data, size}};
  if (writev(g_fuse, parts, size ? 2 : 1) < 0 && errno != ENOENT) die("reply");  // ENOENT: it was interrupted
}

static int fill(const char* path, uint64_t node, struct fuse_attr* to) {
  struct stat s;
  if (!path || lstat(path, &s) != 0) return path ? -errno : -ESTALE;
  *to = (struct fuse_attr){.ino = node,
                           .size = (uint64_t)s.st_size,
                           .blocks = (uint64_t)s.st_blocks,
                           .mtime = (uint64_t)s.st_mtime,
                           .atime = (uint64_t)s.st_atime,
                           .ctime = (uint64_t)s.st_ctime,
                           .mode = s.st_mode,
                           .nlink = (uint32_t)s.st_nlink,
                           .uid = s.st_uid,
                           .gid = s.st_gid,
                           .blksize = 4096};
  return 0;
}

static void look_up(const struct fuse_in_header* in, const char* name) {
  char path[4096];
  struct fuse_entry_out entry = {0};
  const char* parent = path_of(in->nodeid);
  const int length = parent ? snprintf(path, sizeof path, "%s/%s", parent, name) : -1;
  if (length < 0 || (size_t)length >= sizeof path) return reply(in->unique, -ENOENT, NULL, 0);
  struct stat s;
  if (lstat(path, &s) != 0) return reply(in->unique, -errno, NULL, 0);
  entry.nodeid = node_of(path);
  const int error = fill(path, entry.nodeid, &entry.attr);
  reply(in->unique, error, &entry, error ? 0 : sizeof entry);
}

static void read_file(const struct fuse_in_header* in, const struct fuse_read_in* want, int64_t begin,
                      char* data) {
  const size_t size = want->size < REQUEST_BYTES ? want->size : REQUEST_BYTES;
  const ssize_t n = pread((int)want->fh, data, size, (off_t)want->offset);
  if (n < 0) return reply(in->unique, -errno, NULL, 0);
  sleep_until(arrival(begin, (size_t)n) + g_read_ns);
  reply(in->unique, 0, data, (size_t)n);
}

static void read_folder(const struct fuse_in_header* in, const struct fuse_read_in* want, char* data) {
  const char* path = path_of(in->nodeid);
  DIR* folder = path ? opendir(path) : NULL;
  if (!folder) return reply(in->unique, -ENOENT, NULL, 0);
  size_t used = 0;
  uint64_t number = 0;
  for (struct dirent* entry; (entry = readdir(folder));) {
    if (++number <= want->offset) continue;
    const size_t length = strlen(entry->d_name);
    const size_t whole = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + length);
    if (used + whole > want->size || used + whole > REQUEST_BYTES) break;
    struct fuse_dirent to = {entry->d_ino, number, (uint32_t)length, entry->d_type};
    memset(data + used, 0, whole);
    memcpy(data + used, &to, FUSE_NAME_OFFSET);
    memcpy(data + used + FUSE_NAME_OFFSET, entry->d_name, length);
    used += whole;
  }
  closedir(folder);
  reply(in->unique, 0, data, used);
}

static void open_file(const struct fuse_in_header* in, int64_t begin) {
  const char* path = path_of(in->nodeid);
  const int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) return reply(in->unique, -ENOENT, NULL, 0);
  sleep_until(begin + g_open_ns);
  const struct fuse_open_out out = {(uint64_t)fd, g_keep_cache ? FOPEN_KEEP_CACHE : 0, 0};
  reply(in->unique, 0, &out, sizeof out);
}

static void initialise(const struct fuse_in_header* in, const struct fuse_init_in* kernel) {
  struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION,
                              .minor = FUSE_KERNEL_MINOR_VERSION,
                              .max_readahead = kernel->max_readahead,
                              .flags = FUSE_ASYNC_READ | FUSE_PARALLEL_DIROPS,
                              .max_background = THREADS,
                              .congestion_threshold = THREADS,
                              .max_write = 4096,
                              .time_gran = 1};
  if (kernel->minor < out.minor) out.minor = kernel->minor;
  reply(in->unique, 0, &out, sizeof out);
}

static void serve(const struct fuse_in_header* in, char* data) {
  const void* body = in + 1;
  const int64_t begin = now_ns();
  switch (in->opcode) {
    case FUSE_INIT:
      return initialise(in, body);
    case FUSE_LOOKUP:
      sleep_until(begin + g_stat_ns);
      return look_up(in, body);
    case FUSE_GETATTR: {
      struct fuse_attr_out out = {0};
      sleep_until(begin + g_stat_ns);
      const int error = fill(path_of(in->nodeid), in->nodeid, &out.attr);
      return reply(in->unique, error, &out, error ? 0 : sizeof out);
    }
    case FUSE_OPEN:
      return open_file(in, begin);
    case FUSE_READ:
      return read_file(in, body, begin, data);
    case FUSE_RELEASE:
      close((int)((const struct fuse_release_in*)body)->fh);
      return reply(in->unique, 0, NULL, 0);
    case FUSE_OPENDIR: {
      const struct fuse_open_out out = {0, 0, 0};
      return reply(in->unique, 0, &out, sizeof out);
    }
    case FUSE_READDIR:
      return read_folder(in, body, data);
    case FUSE_RELEASEDIR:
    case FUSE_FLUSH:
    case FUSE_ACCESS:
      return reply(in->unique, 0, NULL, 0);
    case FUSE_STATFS: {
      const struct fuse_statfs_out out = {.st = {.bsize = 4096, .namelen = 255, .frsize = 4096}};
      return reply(in->unique, 0, &out, sizeof out);
    }
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
      return;
    default:
      return reply(in->unique, -ENOSYS, NULL, 0);
  }
}

static void* serve_all(void* nothing) {
  char* request = malloc(REQUEST_BYTES + 4096);
  char* data = malloc(REQUEST_BYTES);
  for (;;) {
    const ssize_t n = read(g_fuse, request, REQUEST_BYTES + 4096);
    if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOENT)) continue;
    if (n <= 0) exit(0);  // ENODEV: unmounted
    serve((const struct fuse_in_header*)request, data);
  }
  return nothing;
}

int main(int argc, char** argv) {
  if (argc != 9) return fprintf(stderr, "slow_fs: eight arguments, see the source\n"), 2;
  g_paths[1] = argv[1];
  g_open_ns = atoll(argv[4]) * 1000;
  g_read_ns = atoll(argv[5]) * 1000;
  g_stat_ns = atoll(argv[6]) * 1000;
  if (atof(argv[7]) > 0) g_ns_a_byte = 1e9 / (atof(argv[7]) * (1 << 20));
  g_keep_cache = atoi(argv[8]);
  g_fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
  if (g_fuse < 0) die("/dev/fuse");
  char options[128];
  snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=%d,group_id=%d,allow_other", g_fuse,
           (int)getuid(), (int)getgid());
  if (mount("slow", argv[2], argv[3], MS_NOSUID | MS_NODEV | MS_RDONLY, options) != 0) die("mount");
  puts("mounted");
  fflush(stdout);
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; ++i) pthread_create(&threads[i], NULL, serve_all, NULL);
  pthread_join(threads[0], NULL);
}
