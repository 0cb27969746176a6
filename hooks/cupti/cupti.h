// SPDX-License-Identifier: Apache-2.0
// The source `cupti`: the device timeline, and the CUDA calls that do not go through the hooked symbols.
// Thread safety: any. Errors: none; what is not available is said in the trace (table Source).
#pragma once

namespace gpuwatch::hooks::cupti {

// On the first CUDA call that was seen, before it is made: CUPTI has to be there before the job's context.
// `caller` tells which of several runtimes is meant. Idempotent; costs some milliseconds once (loading
// libcupti), where creating a context costs hundreds.
void on_cuda_evidence(const void* caller) noexcept;

// Before the process ends without exit handlers (_exit): fetches the device records that are complete. At
// most 100 ms. exit() needs no call.
void before_exit() noexcept;

// Around the use of CUPTI by a tool whose calls we cannot see: our session releases CUPTI, until take_back()
// was called as often. `tool` is its name in reports. False: our session does not run, and take_back() must
// not be called.
bool make_way(const char* tool) noexcept;
void take_back() noexcept;

}  // namespace gpuwatch::hooks::cupti
