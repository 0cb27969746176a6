// SPDX-License-Identifier: Apache-2.0
// Attributes used throughout the injected library. No code, no state.
#pragma once

#define GW_EXPORT __attribute__((visibility("default")))
#define GW_COLD __attribute__((cold, noinline))
#define GW_LIKELY(x) __builtin_expect(!!(x), 1)
#define GW_UNLIKELY(x) __builtin_expect(!!(x), 0)

// The library is preloaded, so its thread locals sit in the static TLS block and cost one %fs-relative load.
// dlopen'ed (CUDA_INJECTION64_PATH), glibc's surplus of 1664 bytes holds them: keep them few.
#define GW_TLS __attribute__((tls_model("initial-exec"))) thread_local constinit

// Who called the hook: decides which library's real function is meant and where the call stands.
#define GW_CALLER __builtin_return_address(0)
