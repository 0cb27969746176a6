// SPDX-License-Identifier: Apache-2.0
#include "analyzer/trial/mount_namespace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>

#include "analyzer/io/printable.h"

namespace gpuwatch::trial {
namespace {

// An overlay's sockets and FIFOs are not the real ones.
constexpr const char* kRealPaths[] = {"/proc", "/sys", "/dev", "/run"};

// The kernel writes blanks, tabs, line breaks and backslashes as \ooo.
std::string unescaped(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      out += static_cast<char>(std::strtol(text.substr(i + 1, 3).c_str(), nullptr, 8));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

// proc(5): id, parent, device, root, mount point, options, optional fields, "-", type, source, options.
std::optional<Mount> parsed(const std::string& line) {
  std::istringstream fields(line);
  Mount mount;
  std::string skipped, options, source, super_options;
  if (!(fields >> mount.id >> skipped >> skipped >> skipped >> mount.point >> options)) return std::nullopt;
  while (fields >> skipped && skipped != "-") {
  }
  if (!(fields >> mount.type >> source >> super_options)) return std::nullopt;
  mount.point = unescaped(mount.point);
  auto says_ro = [](const std::string& list) { return list == "ro" || list.starts_with("ro,"); };
  mount.is_read_only = says_ro(options) || says_ro(super_options);
  return mount;
}

int mount_id(int fd) {
  std::ifstream info(fmt::format("/proc/self/fdinfo/{}", fd));
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("mnt_id:")) return std::atoi(line.c_str() + 7);
  return -1;
}

void open_root(Mount& mount) {
  int fd = open(mount.point.c_str(), O_PATH | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return;  // not accessible to the job either
  struct stat status = {};
  fstat(fd, &status);
  mount.is_directory = S_ISDIR(status.st_mode);
  if (mount_id(fd) == mount.id)
    mount.fd = fd;
  else
    close(fd);
}

bool is_written(const char* path, const std::string& text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  bool is_ok = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  int error = errno;
  close(fd);
  errno = error;
  return is_ok;
}

// user_namespaces(7): without privileges, one's own ids only, and setgroups must be denied before gid_map.
std::string map_own_ids(uid_t user, gid_t group) {
  if (!is_written("/proc/self/setgroups", "deny") && errno != ENOENT)
    return failed("write", "/proc/self/setgroups", errno);
  if (!is_written("/proc/self/uid_map", fmt::format("{0} {0} 1", user)))
    return failed("write", "/proc/self/uid_map", errno);
  if (!is_written("/proc/self/gid_map", fmt::format("{0} {0} 1", group)))
    return failed("write", "/proc/self/gid_map", errno);
  return "";
}

unsigned long mount_flags(const std::string& path) {
  struct statvfs status = {};
  if (statvfs(path.c_str(), &status) != 0) return 0;
  constexpr std::pair<unsigned long, unsigned long> kFlags[] = {
      {ST_NOSUID, MS_NOSUID},   {ST_NODEV, MS_NODEV},           {ST_NOEXEC, MS_NOEXEC},
      {ST_NOATIME, MS_NOATIME}, {ST_NODIRATIME, MS_NODIRATIME}, {ST_RELATIME, MS_RELATIME}};
  unsigned long flags = 0;
  for (auto [seen, flag] : kFlags)
    if (status.f_flag & seen) flags |= flag;
  return flags;
}

}  // namespace

std::string failed(std::string_view call, const std::string& path, int error) {
  return fmt::format("{} {}: {}", call, io::printable(path), std::strerror(error));
}

std::string fd_path(int fd) {
  return fmt::format("/proc/self/fd/{}", fd);
}

bool is_below(const std::string& path, const std::string& directory) {
  if (directory == "/") return path.size() > 1;
  return path.size() > directory.size() && path.starts_with(directory) && path[directory.size()] == '/';
}

bool is_at_or_below(const std::string& path, const std::string& directory) {
  return path == directory || is_below(path, directory);
}

std::string first_line(const char* path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

bool stays_real(const std::string& path) {
  return std::ranges::any_of(kRealPaths, [&](const char* real) { return is_at_or_below(path, real); });
}

std::vector<Mount> mounts_here() {
  std::vector<Mount> mounts;
  std::ifstream info("/proc/self/mountinfo");
  for (std::string line; std::getline(info, line);) {
    std::optional<Mount> mount = parsed(line);
    if (!mount) continue;
    if (!stays_real(mount->point)) open_root(*mount);
    mounts.push_back(std::move(*mount));
  }
  std::ranges::stable_sort(mounts, {}, &Mount::point);
  return mounts;
}

bool is_initial_user_namespace() {
  std::istringstream map(first_line("/proc/self/uid_map"));
  unsigned long inside = 1, outside = 1, count = 0;
  map >> inside >> outside >> count;
  return inside == 0 && outside == 0 && count == 0xffffffff;
}

// Sets is_own when that needs a user namespace: all mounts are locked in it.
std::string separate_mounts(bool& is_own) {
  uid_t user = geteuid();
  gid_t group = getegid();
  is_own = false;
  if (unshare(CLONE_NEWNS) != 0) {
    is_own = true;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
      return fmt::format("unshare(CLONE_NEWUSER): {}", std::strerror(errno));
    if (std::string error = map_own_ids(user, group); !error.empty()) return error;
  }
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return failed("mount(MS_PRIVATE)", "/", errno);
  return "";
}

// redirect_dir: a directory can be renamed. volatile: no sync of the whole file system when the overlay goes.
int mount_overlay(const std::string& target, int lower, int upper, int work, bool is_trusted) {
  const std::string base =
      fmt::format("lowerdir={},upperdir={},workdir={},index=off,metacopy=off,{}", fd_path(lower),
                  fd_path(upper), fd_path(work), is_trusted ? "redirect_dir=on" : "userxattr");
  for (const char* more : {",volatile", ""}) {  // volatile: Linux 5.10
    if (mount("gpuwatch", target.c_str(), "overlay", 0, (base + more).c_str()) == 0) return 0;
    if (errno != EINVAL) break;
  }
  return errno;
}

// Flags that a user namespace inherits are locked, so they are repeated.
std::string make_read_only(const std::string& path) {
  unsigned long flags = MS_REMOUNT | MS_BIND | MS_RDONLY | mount_flags(path);
  if (mount(nullptr, path.c_str(), nullptr, flags, nullptr) == 0) return "";
  return failed("remount read-only", path, errno);
}

}  // namespace gpuwatch::trial
