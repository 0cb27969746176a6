// SPDX-License-Identifier: Apache-2.0
#include "libinject/context/memory.h"

#include <sys/mman.h>
#include <sys/vfs.h>

#include "libinject/base/clock.h"
#include "libinject/base/syscall.h"
#include "libinject/machine/proc_text.h"

namespace gpuwatch::context {
namespace {

uint64_t find_kib(const char* text, const char* key) noexcept {
  uint64_t kib = 0;
  return machine::find_number(text, key, &kib) ? kib * 1024 : 0;
}

}  // namespace

MachineMemory read_machine_memory(const machine::Roots& roots) noexcept {
  char text[2048];
  if (base::read_file(machine::below(roots.proc, "meminfo").c_str(), text, sizeof text) <= 0) return {};
  return {find_kib(text, "MemTotal:"), find_kib(text, "MemAvailable:"), find_kib(text, "SwapTotal:")};
}

uint64_t read_swap_in_bytes(const machine::Roots& roots) noexcept {
  static char text[8192];  // about 200 lines; one sample is taken at a time, maybe on a small stack
  uint64_t pages = 0;
  if (base::read_file(machine::below(roots.proc, "vmstat").c_str(), text, sizeof text) <= 0) return 0;
  return machine::find_number(text, "pswpin ", &pages) ? pages * 4096 : 0;
}

Room read_room(const char* mount_point) noexcept {
  struct statfs where;
  if (base::raw_syscall(SYS_statfs, base::address(mount_point), base::address(&where)) != 0) return {};
  const auto block = static_cast<uint64_t>(where.f_bsize);
  const auto used = where.f_blocks > where.f_bfree ? where.f_blocks - where.f_bfree : 0;
  return {static_cast<uint64_t>(where.f_blocks) * block, static_cast<uint64_t>(used) * block};
}

uint64_t measure_shared_page_ns() noexcept {
  constexpr size_t kPageBytes = 4096, kPages = 16, kRounds = 4;  // the quickest round: others share the CPU
  uint64_t least_ns = UINT64_MAX;
  for (size_t round = 0; round < kRounds; ++round) {
    void* memory =
        base::sys_mmap(kPages * kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!memory) return 0;
    auto* bytes = static_cast<volatile char*>(memory);
    const uint64_t begin_ns = base::thread_cpu_ns();
    for (size_t page = 0; page < kPages; ++page) bytes[page * kPageBytes] = 1;
    const uint64_t taken_ns = base::thread_cpu_ns() - begin_ns;
    base::raw_syscall(SYS_munmap, base::address(memory), kPages * kPageBytes);
    if (taken_ns < least_ns) least_ns = taken_ns;
  }
  return least_ns / kPages;
}

}  // namespace gpuwatch::context
