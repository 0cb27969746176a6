// SPDX-License-Identifier: Apache-2.0
#include "analyzer/trial/covering.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "analyzer/trial/mount_namespace.h"

namespace gpuwatch::trial {
namespace {

namespace fs = std::filesystem;

// Directories of which only the subdirectories can be covered take one mount each. Beyond this many (homes of
// a cluster, a data set with a folder for each class) the directory as a whole is read-only.
constexpr size_t kMostChildren = 512;
constexpr const char* kPseudoTypes[] = {
    "proc",        "sysfs",     "devtmpfs",   "devpts",   "cgroup",  "cgroup2",   "mqueue",
    "debugfs",     "tracefs",   "securityfs", "configfs", "pstore",  "bpf",       "nsfs",
    "binfmt_misc", "hugetlbfs", "autofs",     "efivarfs", "fusectl", "selinuxfs", "rpc_pipefs"};

uint64_t number_in(const char* path, uint64_t otherwise) {
  std::string line = first_line(path);
  return line.empty() || !std::isdigit(static_cast<unsigned char>(line[0]))
             ? otherwise
             : std::strtoull(line.c_str(), nullptr, 10);
}

// Memory that the machine, and the container's control group, still have.
uint64_t available_memory_bytes() {
  uint64_t available = 0;
  std::ifstream info("/proc/meminfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("MemAvailable:")) available = std::strtoull(line.c_str() + 13, nullptr, 10) * 1024;
  for (auto [limit_file, used_file] :
       {std::pair{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
        std::pair{"/sys/fs/cgroup/memory/memory.limit_in_bytes",
                  "/sys/fs/cgroup/memory/memory.usage_in_bytes"}}) {
    uint64_t limit = number_in(limit_file, UINT64_MAX);
    uint64_t used = number_in(used_file, 0);
    available = std::min(available, limit > used ? limit - used : 0);
  }
  return available;
}

class Covering {
 public:
  Covering(std::vector<int> scratches, bool is_own, Send send)
      : scratches_(std::move(scratches)), is_own_(is_own), send_(std::move(send)), mounts_(mounts_here()) {}

  std::string cover(const std::vector<std::string>& kept, const std::vector<std::string>& likely) {
    std::vector<std::pair<std::string, int>> kept_roots, likely_roots;
    for (const std::string& path : kept) {
      int fd = open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
      if (fd < 0) return failed("open", path, errno);
      kept_roots.emplace_back(path, fd);
    }
    for (const std::string& path :
         likely)  // nothing is lost where one cannot be opened: it has its parent's layer
      if (int fd = is_own_ ? open(path.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1; fd >= 0)
        likely_roots.emplace_back(path, fd);
    split("/");
    read_only_.push_back("/");
    for (const auto& [path, fd] : likely_roots) overlay(path, fd);
    for (const auto& [path, fd] : kept_roots)
      if (!bind(fd, path)) return failed("bind", path, errno);
    if (!error_.empty()) return error_;
    for (const std::string& path : read_only_)
      if (std::string error = make_read_only(path); !error.empty()) return error;
    return "";
  }

 private:
  bool bind(int fd, const std::string& path) {
    // Recursive, because a user namespace must not reveal what lies under a mount.
    return mount(fd_path(fd).c_str(), path.c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0;
  }

  bool has_mounts_below(const std::string& path) const {
    return std::ranges::any_of(mounts_, [&](const Mount& mount) { return is_below(mount.point, path); });
  }

  const Mount* mount_at(const std::string& path) const {
    for (const Mount& mount : mounts_)
      if (mount.point == path && mount.fd >= 0) return &mount;
    return nullptr;
  }

  // The visible mounts below a directory that have no other one in between.
  std::vector<const Mount*> next_mounts(const std::string& path) const {
    std::vector<const Mount*> next;
    for (const Mount& mount : mounts_)  // sorted: a parent comes before what lies below it
      if (mount.fd >= 0 && is_below(mount.point, path) && std::ranges::none_of(next, [&](const Mount* above) {
            return is_at_or_below(mount.point, above->point);
          }))
        next.push_back(&mount);
    return next;
  }

  // A layer's root has the attributes of its upper directory. The owner cannot always be given; it is us
  // then.
  static int made(int parent, const char* name, mode_t mode, int owner_of) {
    if (mkdirat(parent, name, 0700) != 0) return -1;
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat status = {};
    if (owner_of >= 0 && fstat(owner_of, &status) == 0) {
      if (fchown(fd, status.st_uid, status.st_gid) != 0 && fchown(fd, -1, status.st_gid) != 0) errno = 0;
      mode = status.st_mode & 07777;
    }
    fchmod(fd, mode);
    return fd;
  }

  int try_scratch(int scratch, const std::string& path, int lower, const std::string& name) {
    int folder = made(scratch, name.c_str(), 0700, -1);
    int upper = folder < 0 ? -1 : made(folder, "upper", 0700, lower);
    int work = folder < 0 ? -1 : made(folder, "work", 0700, -1);
    int error = work < 0 || upper < 0 ? errno : mount_overlay(path, lower, upper, work, is_trusted_);
    for (int fd : {folder, upper, work})
      if (fd >= 0) close(fd);
    return error;
  }

  // The file systems of all scratch folders refuse to hold a layer: in a container they are overlays.
  int memory() {
    if (memory_ >= 0 || memory_bytes_ > 0 || scratches_.empty()) return memory_;
    memory_bytes_ = available_memory_bytes() / 4;  // the job needs the rest
    int point = made(scratches_[0], "memory", 0700, -1);
    if (point < 0) return -1;
    std::string options = fmt::format("size={},mode=0700", memory_bytes_);
    if (mount("gpuwatch", fd_path(point).c_str(), "tmpfs", MS_NOSUID | MS_NODEV, options.c_str()) == 0)
      memory_ = openat(scratches_[0], "memory", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    close(point);
    return memory_;
  }

  bool overlay(const std::string& path, int lower) {
    // clone_private_mount() refuses a lower directory with locked mounts below it.
    if (is_own_ && has_mounts_below(path)) return false;
    for (size_t i = 0; i <= scratches_.size(); ++i) {
      const bool is_memory = i == scratches_.size();
      int scratch = is_memory ? memory() : scratches_[i];
      std::string name = std::to_string(next_layer_++);
      if (scratch < 0 || try_scratch(scratch, path, lower, name) != 0) continue;
      if (is_memory && !is_memory_sent_) send_(fmt::format("M{}", memory_bytes_), memory_);
      is_memory_sent_ |= is_memory;
      send_(fmt::format("L{} {}/upper {}", i, name, path), -1);
      return true;
    }
    return false;
  }

  static bool needs_cover(const Mount& mount) {
    return !mount.is_read_only && std::ranges::find(kPseudoTypes, mount.type) == std::end(kPseudoTypes);
  }

  void deny_writes(const Mount& mount) {
    read_only_.push_back(mount.point);
    // Containers mount /etc/hosts and the like; no training job writes them.
    const bool is_of_container = !mount.is_directory && is_below(mount.point, "/etc");
    if (!is_of_container && access(fd_path(mount.fd).c_str(), W_OK) == 0) send_("R" + mount.point, -1);
  }

  void place(const Mount& mount, bool is_hidden) {
    if (needs_cover(mount) && mount.is_directory && overlay(mount.point, mount.fd)) {
      for (const Mount* below : next_mounts(mount.point)) place(*below, true);
      return;
    }
    if (is_hidden && !bind(mount.fd, mount.point) && error_.empty())
      error_ = failed("bind", mount.point, errno);
    if (needs_cover(mount)) deny_writes(mount);
    if (needs_cover(mount) && mount.is_directory && has_mounts_below(mount.point))
      split(mount.point);
    else
      for (const Mount* below : next_mounts(mount.point)) place(*below, false);
  }

  static std::vector<std::string> subdirectories(const std::string& path) {
    std::vector<std::string> found;
    std::error_code error;
    for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
      std::error_code ignored;
      if (entry->symlink_status(ignored).type() == fs::file_type::directory)
        found.push_back(entry->path().string());
    }
    std::ranges::sort(found);
    return found;
  }

  // Covers what lies in a directory that cannot be covered itself; its mount becomes read-only.
  void split(const std::string& path) {
    std::vector<std::string> children = subdirectories(path);
    const bool is_too_many = children.size() > kMostChildren;
    for (const std::string& child : children) {
      if (stays_real(child) || mount_at(child)) continue;
      if (is_too_many && !has_mounts_below(child)) continue;
      int fd = open(child.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
      if (fd < 0) continue;
      cover_child(child, fd);
      close(fd);
    }
    for (const Mount* mount : next_mounts(path))
      if (fs::path(mount->point).parent_path() == path) place(*mount, false);
  }

  void cover_child(const std::string& path, int fd) {
    const bool is_writable = access(path.c_str(), W_OK) == 0;
    if (overlay(path, fd)) {
      for (const Mount* below : next_mounts(path)) place(*below, true);
      return;
    }
    if (is_writable) send_("R" + path, -1);  // read-only together with the mount that it is part of
    if (has_mounts_below(path)) split(path);
  }

  std::vector<int> scratches_;
  bool is_own_;
  bool is_trusted_ = is_initial_user_namespace();  // trusted.* attributes need CAP_SYS_ADMIN outside
  Send send_;
  std::vector<Mount> mounts_;
  std::vector<std::string> read_only_;
  std::string error_;
  size_t next_layer_ = 0;
  int memory_ = -1;
  uint64_t memory_bytes_ = 0;
  bool is_memory_sent_ = false;
};

}  // namespace

// Without privileges a directory of another user or group can be copied up only as the root of a layer, which
// is ours then. So a layer begins at the first directory on the way that this user may write to, and at every
// later one with another owner.
std::vector<std::string> writable_roots(const std::vector<std::string>& likely) {
  std::set<std::string> roots;
  for (const std::string& path : likely) {
    bool is_first = true;
    fs::path walked = "/";
    for (const fs::path& part : fs::path(path).relative_path()) {
      walked /= part;
      struct stat status = {};
      if (stays_real(walked.string()) || lstat(walked.c_str(), &status) != 0) break;
      if (!S_ISDIR(status.st_mode) || access(walked.c_str(), W_OK) != 0) continue;
      const bool is_ours = status.st_uid == geteuid() && status.st_gid == getegid();
      const bool is_top = walked.parent_path() == "/";  // has its layer already
      if (!is_top && (is_first || !is_ours)) roots.insert(walked.string());
      is_first = false;
    }
  }
  return {roots.begin(), roots.end()};
}

std::string cover(std::vector<int> scratches, bool is_own, Send send, const std::vector<std::string>& kept,
                  const std::vector<std::string>& likely) {
  return Covering(std::move(scratches), is_own, std::move(send)).cover(kept, likely);
}

}  // namespace gpuwatch::trial
