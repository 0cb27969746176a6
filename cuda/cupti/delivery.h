// SPDX-License-Identifier: Apache-2.0
// The one pair of buffer callbacks that CUPTI gets from us, for our own session and in the name of every
// other tool: a buffer always goes back to the tool that supplied it, so that neither sees the
// other's records, however late they come. Thread safety: any. Errors: none; without a buffer CUPTI drops
// records and counts them.
#pragma once

#include "cuda/cupti/api.h"

namespace gpuwatch::cuda::cupti {

void prepare_delivery(const Api* api) noexcept;

// Whose buffers CUPTI gets from now on: ours, or another tool's if there is one.
void deliver_to_us(bool on) noexcept;

bool register_delivery(const Api& api) noexcept;

// What register_delivery() registers, for the hook that registers it in another tool's place.
void CUPTIAPI on_buffer_request(uint8_t** buffer, size_t* bytes, size_t* max_records);
void CUPTIAPI on_buffer_complete(CUcontext context, uint32_t stream, uint8_t* buffer, size_t bytes,
                                 size_t valid_bytes);

}  // namespace gpuwatch::cuda::cupti
