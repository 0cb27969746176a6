// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/machine.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "analyzer/io/printable.h"

namespace gpuwatch::cli {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  return text;
}

// As the recorder sees it (libinject/context/mounts.h); here a hint is enough.
bool is_remote(const std::string& type) {
  for (const char* known :
       {"nfs", "nfs4", "cifs", "smb3", "9p", "lustre", "ceph", "gpfs", "afs", "beegfs", "fuse"})
    if (type == known) return true;
  return type.starts_with("fuse.") && type.find("overlay") == std::string::npos &&
         type.find("squash") == std::string::npos && type != "fuse.lxcfs" && type != "fuse.portal";
}

// Where this process's group stands in the hierarchy that has the controller: "/a/b", or "" where none is
// named.
std::string group_path(const std::string& root, const std::string& controller) {
  std::ifstream file(root + "/proc/self/cgroup");
  std::string text, unified;
  while (std::getline(file, text)) {
    const size_t list = text.find(':'), path = list == text.npos ? text.npos : text.find(':', list + 1);
    if (path == text.npos) continue;
    const std::string names = "," + text.substr(list + 1, path - list - 1) + ",";
    if (names == ",,") unified = text.substr(path + 1);
    if (!controller.empty() && names.find("," + controller + ",") != names.npos) return text.substr(path + 1);
  }
  return controller.empty() ? unified : "";
}

// The lowest limit from the group up to the root, in bytes; 0 without one.
double lowest_limit(std::string mount, std::string path, const char* file) {
  double lowest = 0;
  for (;;) {
    const std::string text = first_line(mount + (path == "/" ? "" : path) + "/" + file);
    double bytes = 0;
    if (std::istringstream(text) >> bytes && bytes < 1e18 && (lowest == 0 || bytes < lowest)) lowest = bytes;
    const size_t slash = path.rfind('/');
    if (slash == path.npos || path.empty()) return lowest;
    path.erase(slash);
  }
}

}  // namespace

std::string storage_words(const std::string& root) {
  std::ifstream file(root + "/proc/self/mountinfo");
  std::string text, found;
  for (size_t count = 0; count < 8 && std::getline(file, text);) {
    const size_t dash = text.find(" - ");
    if (dash == text.npos) continue;
    std::istringstream before(text.substr(0, dash)), after(text.substr(dash + 3));
    std::string word, point, type;
    before >> word >> word >> word >> word >> point;
    after >> type;
    if (!is_remote(type)) continue;
    found += fmt::format("{}{} ({})", found.empty() ? "" : ", ", io::printable(point), io::printable(type));
    ++count;
  }
  return found.empty() ? "no network file systems are mounted"
                       : "over a network: " + found + "; reading data there may be slow";
}

std::string memory_limit_words(const std::string& root) {
  double limit =
      lowest_limit(root + "/sys/fs/cgroup/memory", group_path(root, "memory"), "memory.limit_in_bytes");
  if (limit == 0) limit = lowest_limit(root + "/sys/fs/cgroup", group_path(root, ""), "memory.max");
  return limit == 0 ? "no limit by a control group"
                    : fmt::format("{:.1f} GiB by the control group, page cache and /dev/shm included",
                                  limit / double(1 << 30));
}

std::string pressure_words(const std::string& root) {
  for (const char* mount : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
    const std::string path = group_path(root, "");
    const std::string group = root + mount + (path == "/" ? "" : path);
    if (path.size() > 1 && !first_line(group + "/cpu.pressure").empty())
      return "stalls for CPU, memory and I/O are told for the job's control group";
  }
  return first_line(root + "/proc/pressure/cpu").empty()
             ? "the kernel tells no pressure (PSI is off or not built in; psi=1 at boot switches it on)"
             : "stalls for CPU, memory and I/O are told for the whole machine only";
}

std::string nvml_words() {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (!library)
    return "no libnvidia-ml.so.1: nothing about clocks, power, PCIe link or other jobs on the GPU";
  dlclose(library);
  return "libnvidia-ml.so.1";
}

std::string peek_words(const std::string& root) {
  const std::string scope = first_line(root + "/proc/sys/kernel/yama/ptrace_scope");
  if (scope == "2" || scope == "3")
    return fmt::format("kernel.yama.ptrace_scope={}: what workers are doing cannot be read from outside{}",
                       scope, scope == "2" ? " without CAP_SYS_PTRACE" : "");
  return "a rank may read its workers' Python stacks";
}

}  // namespace gpuwatch::cli
