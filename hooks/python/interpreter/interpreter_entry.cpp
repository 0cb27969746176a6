// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/interpreter/interpreter_entry.h"

#include <atomic>
#include <cstring>

#include "hooks/libc/open.h"
#include "hooks/python/interpreter/finder.h"
#include "hooks/python/interpreter/object.h"
#include "libinject/base/compiler.h"
#include "libinject/base/errno_guard.h"
#include "libinject/base/futex_lock.h"
#include "libinject/base/syscall.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/config.h"
#include "libinject/runtime/own_library.h"

namespace gpuwatch::hooks::python {

constinit const WrappedModules* g_wrapped_modules = nullptr;

namespace {

constinit base::FutexLock g_load_lock;
constinit std::atomic<bool> g_has_api{false};
constinit std::atomic<bool> g_is_installed{false};  // set under the GIL
constinit std::atomic<bool> g_has_version{false};

using trace::SourceState;
constexpr record::SourceStatus kNoFramework = {SourceState::Absent, "no PyTorch in this process"};
constexpr record::SourceStatus kOff = {SourceState::Off};
constexpr record::SourceStatus kNotPreloaded = {
    SourceState::NotPreloaded,
    "not preloaded: DataLoaders and optimizers are not recorded; start the job with LD_PRELOAD"};
constexpr record::SourceStatus kFreeThreaded = {
    SourceState::Unavailable,
    "free-threaded Python is not supported: DataLoaders and optimizers are not recorded"};
constexpr record::SourceStatus kNoMetaPath = {
    SourceState::Unavailable,
    "the script replaced sys.meta_path: DataLoaders and optimizers are not recorded"};
constinit std::atomic<const record::SourceStatus*> g_status{&kNoFramework};

struct Folder {
  const char* name;
  size_t length;
};
constexpr Folder kOtherPackages[] = {
#define GW_FRAMEWORK_FOLDER(folder) {folder, sizeof folder - 1},
#include "libinject/trace/frameworks.def"
};

bool is_other_package(const char* name, size_t length) noexcept {
  for (const Folder& folder : kOtherPackages) {
    if (folder.length == length && std::memcmp(folder.name, name, length) == 0) return true;
  }
  return false;
}

// ".../tensorflow/__init__.py", ".../keras/__pycache__/__init__.cpython-311.pyc": the first file that the
// import of a package opens.
bool begins_other_package(const char* path, size_t length) noexcept {
  const auto slash_before = [path](const char* end) noexcept {
    return static_cast<const char*>(memrchr(path, '/', static_cast<size_t>(end - path)));
  };
  const char* slash = slash_before(path + length);
  if (!slash || std::strncmp(slash + 1, "__init__.", 9) != 0) return false;
  const char* before = slash_before(slash);
  if (before && std::strncmp(before + 1, "__pycache__/", 12) == 0) {
    slash = before;
    before = slash_before(slash);
  }
  return before && is_other_package(before + 1, static_cast<size_t>(slash - before - 1));
}

// ".../torch/__pycache__/__init__.cpython-311.pyc", ".../torch/optim/optimizer.py". Another package with a
// folder `torch` does no harm: the finder then waits for modules that are never imported.
bool is_framework_source(const char* path) noexcept {
  const size_t length = std::strlen(path);
  if (length < 9) return false;
  const char* end = path + length;
  const bool is_python = std::memcmp(end - 3, ".py", 3) == 0 || std::memcmp(end - 4, ".pyc", 4) == 0;
  if (GW_LIKELY(!is_python)) return false;
  return memmem(path, length, "/torch/", 7) != nullptr || begins_other_package(path, length);
}

void give_up(const record::SourceStatus& status) noexcept {
  g_status.store(&status, std::memory_order_relaxed);
  libc::set_open_listener(nullptr);
}

// False: not yet (another interpreter may be loaded), or never (give_up() was called).
bool has_usable_interpreter() noexcept {
  if (!g_has_api.load(std::memory_order_acquire)) {
    const base::FutexGuard guard(g_load_lock, static_cast<uint32_t>(base::sys_getpid()));
    if (load_api() != nullptr) return false;
    g_has_api.store(true, std::memory_order_release);
  }
  if (!g_api.Py_IsInitialized() || (g_api.is_finalizing && g_api.is_finalizing())) return false;
  if (std::strstr(g_api.Py_GetVersion(), "free-threading")) {
    give_up(kFreeThreaded);
    return false;
  }
  return true;
}

// With the GIL held.
void install() noexcept {
  if (g_is_installed || g_api.PyInterpreterState_Get() != g_api.PyInterpreterState_Main()) return;
  const record::Quiet quiet;
  const ErrorGuard guard;
  g_is_installed = true;
  if (!install_finder()) return give_up(kNoMetaPath);
  g_wrapped_modules->wrap_loaded();
  libc::set_open_listener(nullptr);
}

// importlib reads files through FileIO, which releases the GIL during open(2) and takes it back right after.
// Taking it here is the same, a little earlier. Elsewhere PyGILState_Ensure() could deadlock (the thread may
// hold a lock of some library), so it is called for this path only, and only on a thread that is a Python
// thread already.
void enter_interpreter() noexcept {
  void* const thread = g_api.PyGILState_GetThisThreadState();
  if (!thread) return;
  if (!g_api.PyGILState_Check()) {
    const int before = g_api.PyGILState_Ensure();
    install();
    g_api.PyGILState_Release(before);
  } else if (g_api.current_thread_state() == thread) {
    install();
  }
  // else: there are sub-interpreters, and then PyGILState_Check() returns 1 on every thread.
}

void look_at(const char* path) noexcept {
  if (GW_LIKELY(!is_framework_source(path))) return;
  const base::ErrnoGuard errno_guard;
  if (has_usable_interpreter()) enter_interpreter();
}

}  // namespace

void watch_for_imports(const WrappedModules& modules) noexcept {
  g_wrapped_modules = &modules;
  if (!runtime::config().is_on(runtime::Source::kPython)) return give_up(kOff);
  libc::set_open_listener(look_at);
}

void put_interpreter_facts() noexcept {
  g_wrapped_modules->put_state();
  if (g_has_version.exchange(true, std::memory_order_relaxed)) return;
  base::Text<32> version;
  const char* full = g_api.Py_GetVersion();
  version.add(full, std::strcspn(full, " "));
  record::put_fact("python", version.c_str());
}

void put_source_state() noexcept {
  if (g_is_installed) return put_interpreter_facts();
  if (!runtime::is_preloaded()) return record::put_source("python", kNotPreloaded);
  record::put_source("python", *g_status.load(std::memory_order_relaxed));
}

}  // namespace gpuwatch::hooks::python
