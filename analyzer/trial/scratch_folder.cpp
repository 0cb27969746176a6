// SPDX-License-Identifier: Apache-2.0
#include "analyzer/trial/scratch_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>

#include "analyzer/trial/mount_namespace.h"

namespace gpuwatch::trial {
namespace {

namespace fs = std::filesystem;

constexpr size_t kScratches = 3;  // two top-level directories cover each other; a third if one refuses

}  // namespace

int opened_folder(int parent, const char* name) {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  int fd = openat(parent, name, kFlags);
  if (fd >= 0 || errno != EACCES) return fd;
  // overlayfs leaves its work directory with mode 000. Only we may enter the folder above, so nothing can
  // take the directory's place between the calls.
  struct stat status = {};
  if (fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(status.st_mode)) return -1;
  if (fchmodat(parent, name, 0700, 0) != 0) return -1;
  return openat(parent, name, kFlags);
}

int remove_tree(int parent, const char* name, dev_t device) {
  struct stat status = {};
  if (fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return errno;
  if (status.st_dev != device) return EXDEV;
  if (!S_ISDIR(status.st_mode)) return unlinkat(parent, name, 0) == 0 ? 0 : errno;
  int fd = opened_folder(parent, name);
  if (fd < 0) return errno;
  fchmod(fd, 0700);  // the job may have made it read-only
  DIR* folder = fdopendir(fd);
  int first_error = 0;
  while (dirent* entry = readdir(folder)) {
    if (!std::strcmp(entry->d_name, ".") || !std::strcmp(entry->d_name, "..")) continue;
    int error = remove_tree(fd, entry->d_name, device);
    if (!first_error) first_error = error;
  }
  closedir(folder);
  if (!first_error && unlinkat(parent, name, AT_REMOVEDIR) != 0) first_error = errno;
  return first_error;
}

std::vector<std::string> scratch_places(const std::string& preferred) {
  const char* temporary = std::getenv("TMPDIR");
  const char* home = std::getenv("HOME");
  std::vector<std::string> places;
  std::set<fs::path> tops;
  for (const std::string& place :
       {preferred, std::string(temporary ? temporary : ""), std::string("/var/tmp"),
        std::string(home ? home : ""), std::string("/tmp"), std::string(".")}) {
    std::error_code error;
    fs::path path = fs::canonical(place, error);
    if (error || stays_real(path.string()) || access(path.c_str(), W_OK | X_OK) != 0) continue;
    fs::path top = path.relative_path().empty() ? "" : *path.relative_path().begin();
    if (places.size() < kScratches && !top.empty() && tops.insert(top).second)
      places.push_back(path.string());
  }
  return places;
}

}  // namespace gpuwatch::trial
