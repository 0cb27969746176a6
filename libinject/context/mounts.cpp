// SPDX-License-Identifier: Apache-2.0
#include "libinject/context/mounts.h"

#include <cstring>

#include "libinject/base/syscall.h"
#include "libinject/machine/mount_line.h"
#include "libinject/record/recorder.h"

namespace gpuwatch::context {
namespace {

constexpr size_t kMaxMounts = 64;

struct Mounted {
  uint64_t id;
  uint64_t device;
  uint32_t point;  // Text id
};
constinit Mounted g_mounts[kMaxMounts]{};
constinit uint32_t g_count = 0;

void put(const machine::MountLine& mount) noexcept {
  if (machine::is_pseudo(mount.type)) return;
  if (g_count == kMaxMounts)
    return record::lose(GW_INCOMPLETE "mounts are not told apart in file reads: there are more than 64", 1);
  trace::MountFields fields;
  fields.process = record::process_ordinal();
  fields.device = mount.device;
  fields.point = record::intern_path(mount.point);
  fields.type = record::intern(mount.type);
  fields.source = record::intern_path(mount.source);
  fields.is_remote = machine::is_remote(mount.type);
  record::put(fields);
  g_mounts[g_count++] = {mount.id, mount.device, fields.point};
}

// 0: not told (a kernel before 5.8, or a container's filter).
uint64_t mount_id_of(int fd) noexcept {
  struct statx about;
  const long result = base::raw_syscall(SYS_statx, fd, base::address(""), AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
                                        STATX_MNT_ID, base::address(&about));
  return result == 0 && (about.stx_mask & STATX_MNT_ID) ? about.stx_mnt_id : 0;
}

}  // namespace

void put_mounts(const machine::Roots& roots) noexcept {
  g_count = 0;
  const int fd = base::sys_open(machine::below(roots.proc, "self/mountinfo").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  // Once, when recording starts, maybe on a small stack. A longer line is passed over.
  static char text[8192];
  size_t size = 0;
  for (;;) {
    const ssize_t n = base::sys_read(fd, text + size, sizeof text - size);
    if (n <= 0) break;
    size += static_cast<size_t>(n);
    const char* line = text;
    while (const void* found = std::memchr(line, '\n', size - static_cast<size_t>(line - text))) {
      const auto* end = static_cast<const char*>(found);
      machine::MountLine mount;
      if (machine::parse_mount(line, end, &mount)) put(mount);
      line = end + 1;
    }
    size -= static_cast<size_t>(line - text);
    std::memmove(text, line, size);
    if (size == sizeof text) size = 0;
  }
  base::sys_close(fd);
}

uint32_t mount_of(int fd) noexcept {
  if (fd < 0 || g_count == 0) return 0;
  if (const uint64_t id = mount_id_of(fd)) {
    for (uint32_t i = 0; i < g_count; ++i) {
      if (g_mounts[i].id == id) return g_mounts[i].point;
    }
    return 0;
  }
  struct stat about;
  if (base::sys_fstat(fd, &about) != 0) return 0;
  for (uint32_t i = g_count; i-- > 0;) {  // of two mounts of one device, the later
    if (g_mounts[i].device == about.st_dev) return g_mounts[i].point;
  }
  return 0;
}

}  // namespace gpuwatch::context
