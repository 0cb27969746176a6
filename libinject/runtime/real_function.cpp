// SPDX-License-Identifier: Apache-2.0
#include "libinject/runtime/real_function.h"

#include <dlfcn.h>
#include <link.h>

#include "libinject/base/errno_guard.h"

namespace gpuwatch::runtime {
namespace {

void* look_up(void* handle, const char* name, const char* version) noexcept {
  if (version && dlvsym) {
    if (void* found = dlvsym(handle, name, version)) return found;
  }
  return dlsym(handle, name);
}

bool is_ours(const void* function) noexcept {
  Dl_info it, us;
  return dladdr(function, &it) && dladdr(reinterpret_cast<const void*>(&find_real), &us) &&
         it.dli_fbase == us.dli_fbase;
}

// The scope of an object opened by its path holds its own dependencies, not what was preloaded.
void* look_up_from_caller(const char* name, const char* version, const void* caller) noexcept {
  Dl_info where;
  link_map* map = nullptr;
  if (!dladdr1(caller, &where, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) || !map) return nullptr;
  if (!map->l_name || !*map->l_name) return nullptr;  // the program itself: its scope is the global one
  void* handle = dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
  if (!handle) return nullptr;
  void* found = look_up(handle, name, version);
  dlclose(handle);
  return found;
}

}  // namespace

void* find_real(const char* name, const char* version, const char* const* sonames, const void* caller,
                const void* own) noexcept {
  if (!dlsym || !dladdr1) return nullptr;  // weak: see base/glibc_floor.h
  const base::ErrnoGuard keep_errno;
  const auto usable = [own](void* found) { return found && found != own && !is_ours(found); };

  // The caller's own dependencies first: with two versions of a library in one process RTLD_NEXT finds
  // the wrong one.
  void* found = caller ? look_up_from_caller(name, version, caller) : nullptr;
  if (usable(found)) return found;
  found = look_up(RTLD_NEXT, name, version);
  if (usable(found)) return found;
  for (const char* const* soname = sonames; soname && *soname; ++soname) {
    void* handle = dlopen(*soname, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle) continue;
    found = look_up(handle, name, version);
    dlclose(handle);
    if (usable(found)) return found;
  }
  // A job must not find our look-ups in its next dlerror().
  if (dlerror) dlerror();
  return nullptr;
}

}  // namespace gpuwatch::runtime
