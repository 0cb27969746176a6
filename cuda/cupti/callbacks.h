// SPDX-License-Identifier: Apache-2.0
// CUPTI's callbacks around CUDA calls. For a call through a hooked symbol they only pass on the correlation
// id; a call that bypassed the symbols is recorded here, without arguments. Runtime calls and the driver
// calls that they are made of count once: the outermost is the job's. Thread and signal safety: any thread;
// nothing but thread locals and the record path. In a forked child: nothing.
#pragma once

#include <cstdint>

#include "cuda/cupti/api.h"
#include "libinject/trace/op_class.h"

namespace gpuwatch::cuda::cupti {

struct ApiOperation {
  uint16_t op = 0;  // 0: not wanted
  trace::OpClass op_class = trace::OpClass::Other;
};

// Knows functions by the names that CUPTI gives them: "cudaMemcpyAsync_ptsz_v7000", "cuMemcpyHtoDAsync_v2".
using FindOperation = ApiOperation (*)(const char* cupti_name) noexcept;

// The subscriber's function.
void CUPTIAPI on_api_call(void* context, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data);

// Switches callbacks on for every function that `find` wants. Returns how many.
unsigned enable_callbacks(const Api& api, CUpti_SubscriberHandle subscriber, FindOperation find) noexcept;

// Whether calls have device records now: correlation ids count, and calls around the symbols are recorded.
// Off while kinds are being switched, so that no call waits for a record that will not come.
void count_calls(bool on) noexcept;

// Runs after each call that gave the device work, on the job's thread, until it returns true.
using OnDeviceWork = bool (*)() noexcept;
void on_first_device_work(OnDeviceWork function) noexcept;

}  // namespace gpuwatch::cuda::cupti
