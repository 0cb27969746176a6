// SPDX-License-Identifier: Apache-2.0
#include "libinject/context/topology.h"

#include "libinject/base/syscall.h"
#include "libinject/machine/proc_text.h"

namespace gpuwatch::context {
namespace {

constexpr uint64_t kMaxNodes = 64;

bool read_line(const machine::FilePath& path, char* text, size_t size) noexcept {
  if (path.was_cut() || base::read_file(path.c_str(), text, size) <= 0) return false;
  if (char* end = std::strchr(text, '\n')) *end = 0;
  return true;
}

}  // namespace

uint32_t read_numa_nodes(const machine::Roots& roots, base::Text<2048>* nodes) noexcept {
  uint32_t count = 0;
  for (uint64_t node = 0; node < kMaxNodes; ++node) {  // numbers may have gaps
    machine::FilePath path;
    path.add(roots.sys).add("/devices/system/node/node").add(node).add("/cpulist");
    char cpus[512];
    if (!read_line(path, cpus, sizeof cpus)) continue;
    if (count++) nodes->add(';');
    nodes->add(node).add(':').add(cpus);
  }
  return count;
}

void read_affinity(Affinity* affinity) noexcept {
  uint64_t mask[4096 / 64] = {};
  const long bytes = base::raw_syscall(SYS_sched_getaffinity, 0, sizeof mask, base::address(mask));
  const uint64_t cpus = bytes > 0 ? static_cast<uint64_t>(bytes) * 8 : 0;
  const auto is_set = [&](uint64_t cpu) { return cpu < cpus && (mask[cpu / 64] >> cpu % 64 & 1); };
  for (uint64_t cpu = 0; cpu < cpus; ++cpu) {
    if (!is_set(cpu)) continue;
    ++affinity->count;
    if (is_set(cpu + 1) && cpu > 0 && is_set(cpu - 1)) continue;  // inside a range
    if (cpu > 0 && is_set(cpu - 1)) {
      affinity->list.add('-').add(cpu);
    } else {
      if (affinity->list.size()) affinity->list.add(',');
      affinity->list.add(cpu);
    }
  }
}

uint32_t read_cpu_mhz(const machine::Roots& roots, uint32_t cpu) noexcept {
  machine::FilePath path;
  path.add(roots.sys).add("/devices/system/cpu/cpu").add(uint64_t{cpu}).add("/cpufreq/scaling_cur_freq");
  char text[32];
  if (!read_line(path, text, sizeof text)) return 0;
  const char* at = text;
  return static_cast<uint32_t>(machine::take_number(at) / 1000);
}

}  // namespace gpuwatch::context
