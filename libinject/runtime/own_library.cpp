// SPDX-License-Identifier: Apache-2.0
#include "libinject/runtime/own_library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "libinject/base/errno_guard.h"
#include "libinject/base/file_search.h"
#include "libinject/base/futex_lock.h"
#include "libinject/base/syscall.h"
#include "libinject/base/text.h"
#include "libinject/runtime/elf_symbols.h"

namespace gpuwatch::runtime {
namespace {

uintptr_t own_address() noexcept {
  return reinterpret_cast<uintptr_t>(&is_preloaded);
}

const char* file_name(const dl_phdr_info& object) noexcept {
  return object.dlpi_name ? base::file_name(object.dlpi_name) : "";
}

// The list is in the order in which symbols are looked for. 1: ours comes first, 2: libc does.
int find_first(dl_phdr_info* object, size_t, void*) noexcept {
  if (segment_of(*object, own_address())) return 1;
  return std::strncmp(file_name(*object), "libc.so", 7) == 0 ? 2 : 0;
}

int starts_with(dl_phdr_info* object, size_t, void* name_start) noexcept {
  const char* wanted = static_cast<const char*>(name_start);
  return std::strncmp(file_name(*object), wanted, std::strlen(wanted)) == 0;
}

enum : int { kUnknown, kPreloaded, kOpened };
constinit std::atomic<int> g_how{kUnknown};

// 5.6 MB with its debug information; other tools' libraries have tens of MB that are not ours to read.
bool is_own_copy(const char* path) noexcept {
  constexpr off_t kMostBytes = 16 << 20;
  static constinit base::FutexLock lock;
  static base::SearchBuffer buffer;
  struct stat file;
  // Not stat(), which libc has under this name since 2.33 only.
  const bool is_there =
      base::raw_syscall(SYS_newfstatat, AT_FDCWD, base::address(path), base::address(&file), 0) == 0;
  if (!is_there || !S_ISREG(file.st_mode) || file.st_size > kMostBytes) return false;
  const base::FutexGuard guard(lock, static_cast<uint32_t>(base::sys_getpid()));
  return base::file_has(path, kOwnExport, sizeof kOwnExport, buffer);
}

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
  if (!dladdr || !dladdr(reinterpret_cast<const void*>(own_address()), &where)) return nullptr;
  return where.dli_fname && *where.dli_fname ? where.dli_fname : nullptr;
}

const char* other_tool_in(const char* variable) noexcept {
  const char* set = std::getenv(variable);
  if (!set || !std::strstr(set, ".so")) return nullptr;  // "none" is no library
  const char* own = own_path();
  const bool has_our_name = own && std::strcmp(base::file_name(set), base::file_name(own)) == 0;
  return has_our_name || is_own_copy(set) ? nullptr : base::file_name(set);
}

bool is_loaded(const char* name_start) noexcept {
  const base::ErrnoGuard keep_errno;
  return dl_iterate_phdr(starts_with, const_cast<char*>(name_start)) != 0;
}

}  // namespace gpuwatch::runtime
