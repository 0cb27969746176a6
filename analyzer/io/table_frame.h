// SPDX-License-Identifier: Apache-2.0
// Walks the cold tables inside a TableChunk. Each is verified before the visitor sees it; kinds that this
// reader does not know (a later minor version) are stepped over.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "libinject/trace/layout.h"
#include "libinject/trace/trace_generated.h"

namespace gpuwatch::io {

// Calls visit(const trace::Text&), visit(const trace::Operation&), ... in the order of the frame. Returns
// false when a table was damaged; what follows it in this frame is not read, because its length cannot be
// believed.
template <typename Visitor>
bool for_each_table(std::span<const uint8_t> frames, Visitor&& visit) {
  constexpr size_t kIdentifierAt = 8;
  if (reinterpret_cast<uintptr_t>(frames.data()) % 8 != 0) return false;
  while (frames.size() >= kIdentifierAt + 4) {
    uint32_t prefix = 0;
    std::memcpy(&prefix, frames.data(), sizeof prefix);
    const size_t size = size_t{prefix} + sizeof prefix;
    if (prefix == 0 || size > frames.size()) return false;
    flatbuffers::Verifier verifier(frames.data(), size);
    const auto* identifier = frames.data() + kIdentifierAt;
#define GW_VISIT(table, letters)                                                 \
  if (std::memcmp(identifier, letters, 4) == 0) {                                \
    if (!verifier.VerifySizePrefixedBuffer<trace::table>(letters)) return false; \
    visit(*flatbuffers::GetSizePrefixedRoot<trace::table>(frames.data()));       \
  }
    GW_TRACE_TABLES(GW_VISIT)
#undef GW_VISIT
    frames = frames.subspan(std::min((size + 7) & ~size_t{7}, frames.size()));
  }
  return frames.empty();
}

}  // namespace gpuwatch::io
