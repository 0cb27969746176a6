// SPDX-License-Identifier: Apache-2.0
#include "libinject/machine/cgroup.h"

#include "libinject/base/syscall.h"
#include "libinject/base/text.h"
#include "libinject/machine/proc_text.h"

namespace gpuwatch::machine {
namespace {

using Directory = FilePath;

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

bool read_cgroup_file(const Roots& roots, char* text, size_t size) noexcept {
  return base::read_file(below(roots.proc, "self/cgroup").c_str(), text, size) > 0;
}

bool find_place_v2(const Roots& roots, const char* text, const char* file, Place* place) noexcept {
  Directory path;
  if (!find_in_cgroup_file(text, nullptr, &path)) return false;
  place->is_version_2 = true;
  const char* const mounts[] = {"fs/cgroup", "fs/cgroup/unified"};  // alone; beside version 1
  for (const char* mount : mounts) {
    if (settle(place, below(roots.sys, mount).c_str(), path.c_str(), file)) return true;
  }
  return false;
}

bool find_place(const Roots& roots, const char* controller, const char* file_v1, const char* file_v2,
                Place* place) noexcept {
  static char text[4096];  // asked once, when recording starts, maybe on a small stack
  if (!read_cgroup_file(roots, text, sizeof text)) return false;
  Directory path_v1;
  if (find_in_cgroup_file(text, controller, &path_v1)) {
    const char* const names[] = {controller, "cpu,cpuacct"};
    for (const char* name : names) {
      Directory mount;
      mount.add(roots.sys).add("/fs/cgroup/").add(name);
      if (settle(place, mount.c_str(), path_v1.c_str(), file_v1)) return true;
    }
  }
  return find_place_v2(roots, text, file_v2, place);
}

bool read_number_file(const char* directory, const char* name, char* text, size_t size) noexcept {
  const Directory path = below(directory, name);
  return !path.was_cut() && base::read_file(path.c_str(), text, size) > 0;
}

// False when this level has no quota.
bool read_quota(const char* directory, bool is_version_2, uint64_t* quota_us, uint64_t* period_us) noexcept {
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

uint64_t read_number(const char* directory, const char* name) noexcept {
  char text[64];
  if (!read_number_file(directory, name, text, sizeof text)) return 0;
  const char* at = text;
  return take_number(at);
}

// 0: no limit at this level.
uint64_t read_memory_max(const char* directory, bool is_version_2) noexcept {
  constexpr uint64_t kNoLimit = 1ull << 60;  // version 1 writes LONG_MAX rounded down to a page
  const uint64_t bytes = read_number(directory, is_version_2 ? "memory.max" : "memory.limit_in_bytes");
  return bytes < kNoLimit ? bytes : 0;  // "max" is no number
}

uint64_t subtract(uint64_t from, uint64_t less) noexcept {
  return from > less ? from - less : 0;
}

}  // namespace

const char* cgroup_version(const Roots& roots) noexcept {
  static char text[4096];  // as in find_place
  if (!read_cgroup_file(roots, text, sizeof text)) return "none";
  Directory ignored;
  Place place;
  const bool has_v1 =
      find_in_cgroup_file(text, "cpu", &ignored) || find_in_cgroup_file(text, "memory", &ignored);
  const bool has_v2 = find_place_v2(roots, text, "cgroup.procs", &place);
  return has_v1 ? (has_v2 ? "1 and 2" : "1") : (has_v2 ? "2" : "none");
}

void find_cpu_limit(const Roots& roots, CpuLimit* limit) noexcept {
  Place place;
  if (!find_place(roots, "cpu", "cpu.stat", "cpu.stat", &place)) return;
  limit->is_version_2 = place.is_version_2;
  walk_up(place, [&](const Directory& directory) noexcept {
    uint64_t quota_us = 0;
    uint64_t period_us = 0;
    if (!read_quota(directory.c_str(), place.is_version_2, &quota_us, &period_us)) return;
    const bool is_tighter = limit->quota_us == 0 || quota_us * limit->period_us < limit->quota_us * period_us;
    if (!is_tighter) return;
    limit->quota_us = quota_us;
    limit->period_us = period_us;
    limit->stat_path = below(directory.c_str(), "cpu.stat");
  });
}

Throttling read_throttling(const CpuLimit& limit) noexcept {
  Throttling throttling;
  char text[1024];
  if (limit.quota_us == 0 || base::read_file(limit.stat_path.c_str(), text, sizeof text) <= 0)
    return throttling;
  find_number(text, "nr_throttled ", &throttling.periods);
  if (!limit.is_version_2) {
    find_number(text, "throttled_time ", &throttling.time_ns);
  } else if (find_number(text, "throttled_usec ", &throttling.time_ns)) {
    throttling.time_ns *= 1000;
  }
  return throttling;
}

void find_memory_limit(const Roots& roots, MemoryLimit* limit) noexcept {
  Place place;
  if (!find_place(roots, "memory", "memory.limit_in_bytes", "memory.max", &place)) return;
  limit->is_version_2 = place.is_version_2;
  walk_up(place, [&](const Directory& directory) noexcept {
    const uint64_t bytes = read_memory_max(directory.c_str(), place.is_version_2);
    if (bytes == 0) return;
    if (limit->tightest_bytes == 0 || bytes < limit->tightest_bytes) limit->tightest_bytes = bytes;
    if (limit->count < MemoryLimit::kLevels) {
      auto& level = limit->levels[limit->count++];
      level.directory = directory;
      level.bytes = bytes;
    }
  });
}

uint64_t read_memory_below_limit(const MemoryLimit& limit) noexcept {
  uint64_t least = UINT64_MAX;
  for (size_t i = 0; i < limit.count; ++i) {
    const auto& level = limit.levels[i];
    const uint64_t used =
        read_number(level.directory.c_str(), limit.is_version_2 ? "memory.current" : "memory.usage_in_bytes");
    static char text[4096];  // one sample is taken at a time, maybe on a small stack
    uint64_t droppable = 0;
    if (read_number_file(level.directory.c_str(), "memory.stat", text, sizeof text)) {
      find_number(text, limit.is_version_2 ? "inactive_file " : "total_inactive_file ", &droppable);
    }
    const uint64_t left = subtract(level.bytes, subtract(used, droppable));
    if (left < least) least = left;
  }
  return least;
}

bool find_pressure_directory(const Roots& roots, FilePath* directory) noexcept {
  static char text[4096];  // as in find_place
  Place place;
  if (!read_cgroup_file(roots, text, sizeof text) || !find_place_v2(roots, text, "cpu.pressure", &place))
    return false;
  directory->add(place.mount.c_str()).add(place.path.c_str());
  return !directory->was_cut();
}

}  // namespace gpuwatch::machine
