// SPDX-License-Identifier: Apache-2.0
// The source `cupti`: the device timeline, and the CUDA calls that go around the hooked symbols.
// Thread safety: any. Errors: none; what cannot be had is said in the trace (table Source).
#pragma once

namespace gpuwatch::hooks::cupti {

// On the first CUDA call that was seen, before it is made: CUPTI has to be there before the job's context.
// `caller` tells which of several runtimes is meant. Idempotent; costs some milliseconds once (loading
// libcupti), where creating a context costs hundreds.
void on_cuda_evidence(const void* caller) noexcept;

// Before the process ends without exit handlers (_exit): fetches what the device has finished. At most 100
// ms; exit() does it by itself.
void before_exit() noexcept;

// Around all that a tool does whose own calls to CUPTI are not seen: CUPTI is its until take_back(), as often
// called. `tool` is what people call it. False: we have no business with CUPTI here, and no take_back() is
// due.
bool make_way(const char* tool) noexcept;
void take_back() noexcept;

}  // namespace gpuwatch::hooks::cupti
