// SPDX-License-Identifier: Apache-2.0
#include "cuda/cupti/delivery.h"

#include <atomic>

#include "cuda/cupti/buffers.h"
#include "cuda/cupti/decode.h"
#include "cuda/cupti/other_tools.h"
#include "cuda/cupti/session.h"

namespace gpuwatch::cuda::cupti {
namespace {

constinit const Api* g_api = nullptr;
constinit std::atomic<bool> g_to_us{false};

}  // namespace

void prepare_delivery(const Api* api) noexcept {
  g_api = api;
}

void deliver_to_us(bool on) noexcept {
  g_to_us.store(on, std::memory_order_release);
}

bool register_delivery(const Api& api) noexcept {
  return api.cuptiActivityRegisterCallbacks(on_buffer_request, on_buffer_complete) == CUPTI_SUCCESS;
}

void CUPTIAPI on_buffer_request(uint8_t** buffer, size_t* bytes, size_t* max_records) {
  const bool to_us = g_to_us.load(std::memory_order_acquire);
  if (!to_us && other_tools::request_buffer(buffer, bytes, max_records)) return;
  *buffer = may_touch_cupti() ? take_buffer() : nullptr;
  *bytes = *buffer ? kBufferBytes : 0;
  *max_records = 0;  // as many as fit
}

void CUPTIAPI on_buffer_complete(CUcontext context, uint32_t stream, uint8_t* buffer, size_t bytes,
                                 size_t valid_bytes) {
  if (!is_our_buffer(buffer))
    return other_tools::complete_buffer(context, stream, buffer, bytes, valid_bytes);
  if (!may_touch_cupti()) return;
  // While no tool wants records CUPTI may still ask for a buffer, and old releases crash without one.
  if (valid_bytes && g_to_us.load(std::memory_order_acquire)) decode(*g_api, buffer, valid_bytes);
  give_back_buffer(buffer);
}

}  // namespace gpuwatch::cuda::cupti
