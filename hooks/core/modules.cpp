// SPDX-License-Identifier: Apache-2.0
#include "hooks/core/modules.h"

#include <link.h>

#include <atomic>

#include "libinject/base/syscall.h"
#include "libinject/record/recorder.h"

namespace gpuwatch::hooks {
namespace {

constinit std::atomic<unsigned long long> g_objects_written{
    0};  // dlpi_adds when the tables were last written

int write_module(dl_phdr_info* object, size_t, void* is_first) noexcept {
  if (g_objects_written.exchange(object->dlpi_adds) == object->dlpi_adds && *static_cast<bool*>(is_first))
    return 1;
  *static_cast<bool*>(is_first) = false;
  char program[1024];
  const char* path = object->dlpi_name;
  if (!path || !*path) {  // the program itself
    const ssize_t n = base::sys_readlink("/proc/self/exe", program, sizeof program - 1);
    program[n > 0 ? n : 0] = 0;
    path = program;
  }
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X)) continue;
    constexpr uint64_t kPage = 4096;
    trace::ModuleFields fields;
    fields.process = record::process_ordinal();
    fields.base = object->dlpi_addr + (segment.p_vaddr & ~(kPage - 1));
    fields.size = segment.p_memsz + (segment.p_vaddr & (kPage - 1));
    fields.path = record::intern_path(path);
    record::put(fields);
  }
  return 0;
}

}  // namespace

void write_modules() noexcept {
  if (!record::is_recording()) return;
  const record::Quiet quiet;
  bool is_first = true;
  dl_iterate_phdr(write_module, &is_first);
}

}  // namespace gpuwatch::hooks
