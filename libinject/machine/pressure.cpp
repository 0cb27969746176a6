// SPDX-License-Identifier: Apache-2.0
#include "libinject/machine/pressure.h"

#include "libinject/base/syscall.h"
#include "libinject/machine/cgroup.h"
#include "libinject/machine/proc_text.h"

namespace gpuwatch::machine {
namespace {

// A kernel started with psi=0 has the files and refuses to read them.
bool can_read(const FilePath& path) noexcept {
  char text[128];
  return !path.was_cut() && base::read_file(path.c_str(), text, sizeof text) > 0;
}

}  // namespace

void find_pressure(const Roots& roots, PressureFiles* files) noexcept {
  FilePath group;
  if (find_pressure_directory(roots, &group) && can_read(below(group.c_str(), "cpu.pressure"))) {
    files->cpu = below(group.c_str(), "cpu.pressure");
    files->memory = below(group.c_str(), "memory.pressure");
    files->io = below(group.c_str(), "io.pressure");
    // The root group tells of the whole machine; it alone has no cgroup.events.
    files->scope = can_read(below(group.c_str(), "cgroup.events")) ? "cgroup" : "machine";
    return;
  }
  if (!can_read(below(roots.proc, "pressure/cpu"))) return;
  files->cpu = below(roots.proc, "pressure/cpu");
  files->memory = below(roots.proc, "pressure/memory");
  files->io = below(roots.proc, "pressure/io");
  files->scope = "machine";
}

uint64_t read_pressure_ns(const KeptPath& file) noexcept {
  char text[256];  // "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234\nfull ..."
  if (file.is_empty() || base::read_file(file.c_str(), text, sizeof text) <= 0) return 0;
  const char* at = std::strstr(text, "total=");
  if (std::strncmp(text, "some ", 5) != 0 || !at) return 0;
  at += 6;
  return take_number(at) * 1000;
}

}  // namespace gpuwatch::machine
