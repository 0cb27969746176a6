// SPDX-License-Identifier: Apache-2.0
// The memory that CUPTI fills with activity records: a fixed pool, so that a request on the job's thread is
// one atomic instruction, never an allocation. Sizes in bytes. Thread safety: any, without locks. Errors: an
// exhausted pool gives no buffer and CUPTI counts what it drops, except on releases before 12.9, which can
// crash on that: these get memory from the system, up to a limit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpuwatch::cuda::cupti {

inline constexpr size_t kBufferBytes = 256 << 10;
inline constexpr unsigned kPoolBuffers = 64;  // at most 16 MiB; reserved, used only in a backlog
inline constexpr unsigned kKeptBuffers = 8;   // memory of the others goes back to the system after use

// `may_refuse`: CUPTI copes with a refused request. `must_be_zero`: CUPTI was told that buffers come zeroed.
// May be called again, when none is out.
bool make_buffers(bool may_refuse, bool must_be_zero) noexcept;

uint8_t* take_buffer() noexcept;
bool is_our_buffer(const uint8_t* buffer) noexcept;
void give_back_buffer(uint8_t* buffer) noexcept;

}  // namespace gpuwatch::cuda::cupti
