// SPDX-License-Identifier: Apache-2.0
// Turns CUPTI's activity records into device slots of the trace, 24 bytes each, through the record path
// of the thread that delivers them. Thread safety: any. Errors: records without a usable time are
// counted as lost.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/cupti/api.h"

namespace gpuwatch::cuda::cupti {

void decode(const Api& api, uint8_t* buffer, size_t valid_bytes) noexcept;

}  // namespace gpuwatch::cuda::cupti
