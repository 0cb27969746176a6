// SPDX-License-Identifier: Apache-2.0
// getenv, which returns this library's path for the injection variables of CUDA and NVTX that are not set.
// The environment itself is unchanged: the job's children see it as it was, and so does the job in environ.
// A variable that is set is never overridden: it names another tool, or none.
#include "hooks/injection/getenv.h"

#include <dlfcn.h>

#include <atomic>
#include <cstring>

#include "libinject/base/compiler.h"
#include "libinject/base/errno_guard.h"
#include "libinject/base/text.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/config.h"
#include "libinject/runtime/next_definition.h"
#include "libinject/runtime/own_library.h"

extern "C" char** environ;

namespace gpuwatch::hooks::injection {
namespace {

using Getenv = char* (*)(const char*);

constinit std::atomic<bool> g_is_armed{false};
constinit std::atomic<Getenv> g_next{nullptr};

// No definition comes after ours: this library was opened and not preloaded.
char* look_up(const char* name) noexcept {
  const size_t length = std::strlen(name);
  for (char** entry = environ; entry && *entry; ++entry) {
    if (std::strncmp(*entry, name, length) == 0 && (*entry)[length] == '=') return *entry + length + 1;
  }
  return nullptr;
}

GW_COLD Getenv find_next() noexcept {
  constexpr runtime::WantedSymbol kWanted{"getenv", runtime::gnu_hash("getenv")};
  void* found = nullptr;
  runtime::find_next_definitions(&kWanted, &found, 1);
  const Getenv next = found ? reinterpret_cast<Getenv>(found) : look_up;
  g_next.store(next, std::memory_order_relaxed);
  return next;
}

// Other callers may act on the answer; only the CUDA driver gets it.
bool is_driver(const void* caller) noexcept {
  Dl_info where;
  if (!dladdr || !dladdr(caller, &where) || !where.dli_fname) return false;
  return std::strncmp(base::file_name(where.dli_fname), "libcuda.so", 10) == 0;
}

GW_COLD char* answer(const char* name, const void* caller) noexcept {
  if (!g_is_armed.load(std::memory_order_relaxed)) return nullptr;
  const base::ErrnoGuard keep_errno;
  const auto& config = runtime::config();
  const bool is_cuda = std::strcmp(name, "CUDA_INJECTION64_PATH") == 0;
  if (!is_cuda && std::strcmp(name, "NVTX_INJECTION64_PATH") != 0) return nullptr;
  if (!record::is_dormant() && !record::is_recording()) return nullptr;
  if (is_cuda) {
    if (!config.is_on(runtime::Source::kCupti) || !is_driver(caller)) return nullptr;
  } else if (!config.is_on(runtime::Source::kNvtx)) {
    return nullptr;
  }
  return runtime::is_preloaded() ? const_cast<char*>(runtime::own_path()) : nullptr;
}

}  // namespace

void arm() noexcept {
  g_is_armed.store(true, std::memory_order_relaxed);
}

}  // namespace gpuwatch::hooks::injection

using namespace gpuwatch::hooks::injection;

extern "C" GW_EXPORT char* gw_injection_getenv(const char* name) __asm__("getenv");
extern "C" GW_EXPORT char* gw_injection_getenv(const char* name) {
  Getenv next = g_next.load(std::memory_order_relaxed);
  if (GW_UNLIKELY(!next)) next = find_next();
  char* value = next(name);
  // "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"
  if (GW_LIKELY(value || (name[0] != 'C' && name[0] != 'N') || !std::strstr(name, "_INJECTION64_PATH"))) {
    return value;
  }
  return answer(name, GW_CALLER);
}
