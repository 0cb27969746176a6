// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/preload_link.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <vector>

#include "analyzer/io/printable.h"
#include "analyzer/io/user_error.h"

namespace gpuwatch::cli {

namespace {

namespace fs = std::filesystem;

bool is_preloadable(const std::string& path) {
  return path.find_first_of(": \t\n") == std::string::npos;
}

// The cache folder outlives a login session, which XDG_RUNTIME_DIR does not: a job may run on after the
// logout.
std::vector<std::string> places() {
  std::vector<std::string> found;
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (cache && cache[0] == '/')
    found.push_back(std::string(cache) + "/gpuwatch");
  else if (home && home[0] == '/')
    found.push_back(std::string(home) + "/.cache/gpuwatch");
  for (const char* shared : {"/var/tmp", "/tmp"})
    found.push_back(fmt::format("{}/gpuwatch-{}", shared, getuid()));
  return found;
}

// A folder that somebody else can write to would let them choose what the job loads.
bool make_private_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  mkdir(path.c_str(), 0700);
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == getuid() &&
         (status.st_mode & 022) == 0;
}

// Named by where it points, so that several installations do not take each other's. "" where it cannot be
// made.
std::string link_in(const std::string& place, const std::string& library) {
  if (!is_preloadable(place) || !make_private_folder(place)) return "";
  const std::string folder = fmt::format("{}/{:016x}", place, std::hash<std::string>{}(library));
  if (!make_private_folder(folder)) return "";
  const std::string link = folder + "/libgpuwatch.so";
  std::error_code error;
  if (fs::read_symlink(link, error) == library) return link;
  const std::string unfinished = fmt::format("{}.{}", link, getpid());
  fs::create_symlink(library, unfinished, error);
  if (!error) fs::rename(unfinished, link, error);
  return error ? "" : link;
}

}  // namespace

std::string preloadable_path(const std::string& library) {
  if (is_preloadable(library)) return library;
  for (const std::string& place : places())
    if (const std::string link = link_in(place, library); !link.empty()) return link;
  throw io::UserError(fmt::format(
      "the library's path {} contains a blank or a colon, which LD_PRELOAD does not allow, and no link to it "
      "could be made in ~/.cache, /var/tmp or /tmp; install gpuwatch in another folder",
      io::printable(library)));
}

}  // namespace gpuwatch::cli
