// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/paths.h"

#include <cstdlib>
#include <filesystem>

#include "analyzer/cli/preload_link.h"
#include "analyzer/io/user_error.h"

namespace gpuwatch::cli {

namespace fs = std::filesystem;

std::string own_directory() {
  std::error_code error;
  fs::path executable = fs::read_symlink("/proc/self/exe", error);
  return error ? "." : executable.parent_path().string();
}

std::string find_library() {
  fs::path prefix = fs::path(own_directory()).parent_path();
  for (const char* folder : {"lib", "lib64", "lib/x86_64-linux-gnu", "libexec/gpuwatch"}) {
    fs::path candidate = prefix / folder / "libgpuwatch.so";
    std::error_code error;
    if (fs::is_regular_file(candidate, error)) return candidate.string();
  }
  return "";
}

std::string library() {
  std::string path = find_library();
  if (path.empty())
    throw io::UserError("libgpuwatch.so is not in " +
                        (fs::path(own_directory()).parent_path() / "lib").string() +
                        ": build or install all of gpuwatch");
  return path;
}

std::string preload_value() {
  const std::string path = preloadable_path(library());
  const char* before = std::getenv("LD_PRELOAD");
  return before && *before ? path + ":" + before : path;
}

}  // namespace gpuwatch::cli
