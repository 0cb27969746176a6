// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/machine.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <fstream>

#include "analyzer/io/printable.h"
#include "libinject/machine/cgroup.h"
#include "libinject/machine/mount_line.h"
#include "libinject/machine/pressure.h"

namespace gpuwatch::cli {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  return text;
}

// The kernel's files below `root`; the recorder's readers take the roots apart.
struct Below {
  explicit Below(const std::string& root) : proc(root + "/proc"), sys(root + "/sys") {}
  machine::Roots roots() const { return {proc.c_str(), sys.c_str()}; }

  std::string proc, sys;
};

}  // namespace

std::string storage_words(const std::string& root) {
  std::ifstream file(root + "/proc/self/mountinfo");
  std::string text, found;
  for (size_t count = 0; count < 8 && std::getline(file, text);) {
    machine::MountLine mount;
    if (!machine::parse_mount(text.data(), text.data() + text.size(), &mount)) continue;
    if (!machine::is_remote(mount.type)) continue;
    found += fmt::format("{}{} ({})", found.empty() ? "" : ", ", io::printable(mount.point),
                         io::printable(mount.type));
    ++count;
  }
  return found.empty() ? "no network file system is mounted"
                       : "network file systems: " + found + "; reading data from them may be slow";
}

std::string cpu_quota_words(const std::string& root) {
  const Below below(root);
  machine::CpuLimit limit;
  machine::find_cpu_limit(below.roots(), &limit);
  return limit.quota_us == 0 ? fmt::format("{} CPU cores, no quota", sysconf(_SC_NPROCESSORS_ONLN))
                             : fmt::format("{:.2f} CPU cores (container quota)",
                                           double(limit.quota_us) / double(limit.period_us));
}

std::string memory_limit_words(const std::string& root) {
  const Below below(root);
  machine::MemoryLimit limit;
  machine::find_memory_limit(below.roots(), &limit);
  return limit.tightest_bytes == 0
             ? "no cgroup limit"
             : fmt::format("{:.1f} GiB (cgroup limit, includes page cache and /dev/shm)",
                           double(limit.tightest_bytes) / double(1 << 30));
}

std::string pressure_words(const std::string& root) {
  const Below below(root);
  machine::PressureFiles files;
  machine::find_pressure(below.roots(), &files);
  if (files.cpu.is_empty())
    return "not available: PSI is off or not built into the kernel; psi=1 at boot switches it on";
  return std::string(files.scope) == "cgroup"
             ? "CPU, memory and I/O stalls are measured for the job's cgroup"
             : "CPU, memory and I/O stalls are measured for the whole machine only";
}

std::string nvml_words() {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (!library)
    return "no libnvidia-ml.so.1: GPU clocks, power, PCIe link and other jobs on the GPU are not seen";
  dlclose(library);
  return "libnvidia-ml.so.1";
}

std::string peek_words(const std::string& root) {
  const std::string scope = first_line(root + "/proc/sys/kernel/yama/ptrace_scope");
  if (scope == "2" || scope == "3")
    return fmt::format("kernel.yama.ptrace_scope={}: stacks of loader workers cannot be read{}", scope,
                       scope == "2" ? " without CAP_SYS_PTRACE" : "");
  return "stacks of loader workers can be read";
}

}  // namespace gpuwatch::cli
