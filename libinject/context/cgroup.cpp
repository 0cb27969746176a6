// SPDX-License-Identifier: Apache-2.0
#include "libinject/context/cgroup.h"

#include "libinject/base/syscall.h"
#include "libinject/base/text.h"
#include "libinject/context/proc_text.h"

namespace gpuwatch::context {
namespace {

using Directory = base::Text<512>;

// One hierarchy: where it is mounted and where in it this process is.
struct Place {
  Directory mount;
  Directory path;  // "/a/b", or "" for the root
  bool is_version_2 = false;
};

bool exists(const char* path) noexcept {
  const int fd = base::sys_open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  base::sys_close(fd);
  return true;
}

bool names_controller(const char* list, const char* end, const char* controller) noexcept {
  const size_t length = std::strlen(controller);
  while (list < end) {
    const char* comma = static_cast<const char*>(std::memchr(list, ',', static_cast<size_t>(end - list)));
    if (!comma) comma = end;
    if (static_cast<size_t>(comma - list) == length && std::memcmp(list, controller, length) == 0)
      return true;
    list = comma + 1;
  }
  return false;
}

// /proc/self/cgroup has lines "4:cpu,cpuacct:/path"; version 2's is "0::/path".
bool find_in_cgroup_file(const char* text, const char* controller, Directory* path) noexcept {
  for (const char* line = text; line && *line; line = std::strchr(line, '\n')) {
    if (*line == '\n') ++line;
    const char* list = std::strchr(line, ':');
    const char* list_end = list ? std::strchr(list + 1, ':') : nullptr;
    if (!list_end) return false;
    ++list;
    const bool matches = controller ? names_controller(list, list_end, controller) : list == list_end;
    if (!matches) continue;
    const char* end = std::strchr(list_end, '\n');
    const char* from = list_end + 1;
    const size_t length = end ? static_cast<size_t>(end - from) : std::strlen(from);
    if (length > 1) path->add(from, length);  // "/" is the root: ""
    return true;
  }
  return false;
}

// The group's directory is the mount plus the path, or the mount itself where a container has its own view.
bool settle(Place* place, const char* mount, const char* path, const char* file) noexcept {
  const char* const candidates[] = {path, ""};
  for (const char* below : candidates) {
    Directory probe;
    probe.add(mount).add(below).add("/").add(file);
    if (probe.was_cut() || !exists(probe.c_str())) continue;
    place->mount.add(mount);
    place->path.add(below);
    return true;
  }
  return false;
}

bool find_place(const char* controller, const char* file_v1, const char* file_v2, Place* place) noexcept {
  char text[4096];
  if (base::read_file("/proc/self/cgroup", text, sizeof text) <= 0) return false;
  Directory path_v1;
  if (find_in_cgroup_file(text, controller, &path_v1)) {
    const char* const names[] = {controller, "cpu,cpuacct"};
    for (const char* name : names) {
      Directory mount;
      mount.add("/sys/fs/cgroup/").add(name);
      if (settle(place, mount.c_str(), path_v1.c_str(), file_v1)) return true;
    }
  }
  Directory path_v2;
  place->is_version_2 = true;
  return find_in_cgroup_file(text, nullptr, &path_v2) &&
         settle(place, "/sys/fs/cgroup", path_v2.c_str(), file_v2);
}

bool read_number_file(const Directory& directory, const char* name, char* text, size_t size) noexcept {
  Directory path;
  path.add(directory.c_str()).add("/").add(name);
  return !path.was_cut() && base::read_file(path.c_str(), text, size) > 0;
}

// False when this level has no quota.
bool read_quota(const Directory& directory, bool is_version_2, uint64_t* quota_us,
                uint64_t* period_us) noexcept {
  char text[64];
  const char* at = text;
  if (is_version_2) {  // "200000 100000" or "max 100000"
    if (!read_number_file(directory, "cpu.max", text, sizeof text) || text[0] == 'm') return false;
    *quota_us = take_number(at);
    *period_us = take_number(at);
  } else {
    if (!read_number_file(directory, "cpu.cfs_quota_us", text, sizeof text) || text[0] == '-') return false;
    *quota_us = take_number(at);
    if (!read_number_file(directory, "cpu.cfs_period_us", text, sizeof text)) return false;
    at = text;
    *period_us = take_number(at);
  }
  return *quota_us > 0 && *period_us > 0;
}

// Calls visit(directory) for the group and each of its ancestors up to the mount.
template <class Visit>
void walk_up(const Place& place, Visit visit) noexcept {
  char path[512];
  std::memcpy(path, place.path.c_str(), place.path.size() + 1);
  for (;;) {
    Directory directory;
    directory.add(place.mount.c_str()).add(path);
    visit(directory);
    char* slash = std::strrchr(path, '/');
    if (!slash) return;
    *slash = 0;
  }
}

}  // namespace

void find_cpu_limit(CpuLimit* limit) noexcept {
  Place place;
  if (!find_place("cpu", "cpu.stat", "cpu.stat", &place)) return;
  limit->is_version_2 = place.is_version_2;
  walk_up(place, [&](const Directory& directory) noexcept {
    uint64_t quota_us = 0;
    uint64_t period_us = 0;
    if (!read_quota(directory, place.is_version_2, &quota_us, &period_us)) return;
    const bool is_tighter = limit->quota_us == 0 || quota_us * limit->period_us < limit->quota_us * period_us;
    if (!is_tighter) return;
    limit->quota_us = quota_us;
    limit->period_us = period_us;
    Directory path;
    path.add(directory.c_str()).add("/cpu.stat");
    std::memcpy(limit->stat_path, path.c_str(), path.size() + 1);
  });
}

uint64_t read_throttled_ns(const CpuLimit& limit) noexcept {
  if (limit.quota_us == 0) return 0;
  char text[1024];
  if (base::read_file(limit.stat_path, text, sizeof text) <= 0) return 0;
  uint64_t value = 0;
  if (limit.is_version_2) return find_number(text, "throttled_usec ", &value) ? value * 1000 : 0;
  return find_number(text, "throttled_time ", &value) ? value : 0;
}

uint64_t read_memory_limit_bytes() noexcept {
  Place place;
  if (!find_place("memory", "memory.limit_in_bytes", "memory.max", &place)) return 0;
  constexpr uint64_t kNoLimit = 1ull << 60;  // version 1 writes LONG_MAX rounded down to a page
  uint64_t tightest = kNoLimit;
  walk_up(place, [&](const Directory& directory) noexcept {
    char text[64];
    const char* name = place.is_version_2 ? "memory.max" : "memory.limit_in_bytes";
    if (!read_number_file(directory, name, text, sizeof text) || text[0] == 'm') return;
    const char* at = text;
    const uint64_t limit = take_number(at);
    if (limit && limit < tightest) tightest = limit;
  });
  return tightest == kNoLimit ? 0 : tightest;
}

}  // namespace gpuwatch::context
