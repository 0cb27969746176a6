// SPDX-License-Identifier: Apache-2.0
#include "libinject/runtime/own_library.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstring>

#include "libinject/base/errno_guard.h"

namespace gpuwatch::runtime {
namespace {

const void* own_address() noexcept {
  return reinterpret_cast<const void*>(&is_preloaded);
}

const char* file_name(const dl_phdr_info& object) noexcept {
  const char* path = object.dlpi_name ? object.dlpi_name : "";
  const char* slash = std::strrchr(path, '/');
  return slash ? slash + 1 : path;
}

bool holds(const dl_phdr_info& object, const void* address) noexcept {
  const auto at = reinterpret_cast<ElfW(Addr)>(address) - object.dlpi_addr;
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object.dlpi_phdr[i];
    if (segment.p_type == PT_LOAD && at - segment.p_vaddr < segment.p_memsz) return true;
  }
  return false;
}

// The list is in the order in which symbols are looked for. 1: ours comes first, 2: libc does.
int find_first(dl_phdr_info* object, size_t, void*) noexcept {
  if (holds(*object, own_address())) return 1;
  return std::strncmp(file_name(*object), "libc.so", 7) == 0 ? 2 : 0;
}

int starts_with(dl_phdr_info* object, size_t, void* name_start) noexcept {
  const char* wanted = static_cast<const char*>(name_start);
  return std::strncmp(file_name(*object), wanted, std::strlen(wanted)) == 0;
}

enum : int { kUnknown, kPreloaded, kOpened };
constinit std::atomic<int> g_how{kUnknown};

}  // namespace

bool is_preloaded() noexcept {
  int how = g_how.load(std::memory_order_relaxed);
  if (how == kUnknown) {
    const base::ErrnoGuard keep_errno;
    how = dl_iterate_phdr(find_first, nullptr) == 1 ? kPreloaded : kOpened;
    g_how.store(how, std::memory_order_relaxed);
  }
  return how == kPreloaded;
}

// What is opened is not in the global scope; who is found there under our name came in earlier.
void* find_in_preloaded_copy(const char* name, const void* own) noexcept {
  if (!dlsym) return nullptr;  // weak: see base/glibc_floor.h
  const base::ErrnoGuard keep_errno;
  void* found = dlsym(RTLD_DEFAULT, name);
  if (dlerror) dlerror();  // a job must not find our look-ups in its next dlerror()
  return found == own ? nullptr : found;
}

const char* own_path() noexcept {
  Dl_info where;
  if (!dladdr || !dladdr(own_address(), &where)) return nullptr;
  return where.dli_fname && *where.dli_fname ? where.dli_fname : nullptr;
}

bool is_loaded(const char* name_start) noexcept {
  const base::ErrnoGuard keep_errno;
  return dl_iterate_phdr(starts_with, const_cast<char*>(name_start)) != 0;
}

}  // namespace gpuwatch::runtime
