// SPDX-License-Identifier: Apache-2.0
// The function that a hook stands in front of, looked up on first use and kept. Where it is:
//   1. RTLD_NEXT, when the library is in the global scope (a linked program, PyTorch's global preload);
//   2. the dependencies of whoever called the hook: a Python extension that was loaded RTLD_LOCAL brings its
//      libcudart along in its own scope, where RTLD_NEXT finds nothing (seen: segmentation fault);
//   3. a loaded library of a known SONAME.
// Pass the hook's caller for vendor libraries (step 2 comes first: with two versions of a library in one
// process RTLD_NEXT finds the wrong one) and null for libc, where other preloaded tools must keep their place
// in the chain. Thread safety: any; racing threads find the same. Signal safety: get() is, after the first
// time. Errors: get() returns null when there is no such function; the hook answers with the API's own error.
#pragma once

#include <atomic>

#include "libinject/base/compiler.h"

namespace gpuwatch::runtime {

// `sonames`: null-terminated list for step 3, or null. `version`: a symbol version to ask for first, or null.
void* find_real(const char* name, const char* version, const char* const* sonames, const void* caller,
                const void* own) noexcept;

template <class Function>
class RealFunction {
 public:
  constexpr RealFunction(const char* name, const char* const* sonames = nullptr,
                         const char* version = nullptr) noexcept
      : name_(name), sonames_(sonames), version_(version) {}

  // `own`: the hook itself, never to be found.
  Function get(const void* caller, const void* own = nullptr) noexcept {
    void* found = found_.load(std::memory_order_relaxed);
    if (GW_LIKELY(found != nullptr)) return reinterpret_cast<Function>(found);
    return resolve(caller, own);
  }

  // For a caller that found it by other means.
  void keep(void* found) noexcept { found_.store(found, std::memory_order_relaxed); }

 private:
  GW_COLD Function resolve(const void* caller, const void* own) noexcept {
    void* found = find_real(name_, version_, sonames_, caller, own);
    if (found) found_.store(found, std::memory_order_relaxed);
    return reinterpret_cast<Function>(found);
  }

  std::atomic<void*> found_{nullptr};
  const char* name_;
  const char* const* sonames_;
  const char* version_;
};

}  // namespace gpuwatch::runtime
