// SPDX-License-Identifier: Apache-2.0
#include "cuda/cupti/api.h"

#include <dlfcn.h>
#include <link.h>

#include <cstring>

#include "libinject/base/text.h"

namespace gpuwatch::cuda::cupti {
namespace {

// CUDA 11 put the minor release into the SONAME.
constexpr const char* kSonames[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8"};

// Where libcupti lies, seen from the folder of libcudart: the one folder of the CUDA 13 wheels, the wheels of
// one component each before, and a toolkit.
constexpr const char* kBesideRuntime[] = {"/", "/../../cuda_cupti/lib/", "/../extras/CUPTI/lib64/"};
constexpr const char* kToolkit[] = {"/usr/local/cuda/lib64/", "/usr/local/cuda/extras/CUPTI/lib64/"};

struct LoadedRuntime {
  base::Path folder;
  const char* soname = nullptr;  // of the CUPTI that goes with it
};

// "libcudart.so.12", "libcudart-d0da41ae.so.11.0" (bundled in a wheel), "libcublas.so.13" (which carries
// a static runtime)
int see_object(dl_phdr_info* object, size_t, void* to) noexcept {
  auto* runtime = static_cast<LoadedRuntime*>(to);
  const char* path = object->dlpi_name;
  const char* slash = path ? std::strrchr(path, '/') : nullptr;
  if (!slash) return 0;
  const char* name = slash + 1;
  if (std::strncmp(name, "libcudart", 9) != 0 && std::strncmp(name, "libcublas.", 10) != 0) return 0;
  const char* version = std::strstr(name, ".so.");
  if (!version) return 0;
  for (const char* soname : kSonames) {
    if (std::strncmp(version + 4, soname + sizeof "libcupti.so." - 1, 2) != 0) continue;
    runtime->folder = base::Path();
    runtime->folder.add(path, static_cast<size_t>(slash - path));
    runtime->soname = soname;
    return std::strncmp(name, "libcudart", 9) == 0;  // go on looking for a runtime proper
  }
  return 0;
}

void* open_at(const char* folder, const char* between, const char* soname) noexcept {
  static base::Path path;  // 4 KiB, searched once, maybe on a small stack
  path = base::Path();
  path.add(folder).add(between).add(soname);
  return path.was_cut() ? nullptr : dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
}

void* open_library() noexcept {
  if (!dlopen || !dlsym) return nullptr;  // weak: see base/glibc_floor.h
  for (const char* soname : kSonames) {
    if (void* library = dlopen(soname, RTLD_LAZY | RTLD_NOLOAD)) return library;
  }
  static LoadedRuntime runtime;  // as in open_at
  dl_iterate_phdr(see_object, &runtime);
  if (runtime.soname) {
    for (const char* between : kBesideRuntime) {
      if (void* library = open_at(runtime.folder.c_str(), between, runtime.soname)) return library;
    }
    if (void* library = open_at("", "", runtime.soname)) return library;
  }
  for (const char* soname : kSonames) {
    if (void* library = open_at("", "", soname)) return library;
  }
  for (const char* folder : kToolkit) {
    for (const char* soname : kSonames) {
      if (void* library = open_at(folder, "", soname)) return library;
    }
  }
  return nullptr;
}

}  // namespace

bool load_api(Api* api) noexcept {
  void* library = open_library();
  if (dlerror) dlerror();  // a job must not find our look-ups in its next dlerror()
  if (!library) {
    api->missing = "libcupti";
    return false;
  }
#define GW_CUPTI_OPTIONAL(function) \
  api->function = reinterpret_cast<decltype(&::function)>(dlsym(library, #function));
#define GW_CUPTI(function)    \
  GW_CUPTI_OPTIONAL(function) \
  if (!api->function && !api->missing) api->missing = #function;
#include "cuda/cupti/api.def"
#undef GW_CUPTI
#undef GW_CUPTI_OPTIONAL
  if (dlerror) dlerror();
  return !api->missing;
}

}  // namespace gpuwatch::cuda::cupti
