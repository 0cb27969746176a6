// SPDX-License-Identifier: Apache-2.0
// A small reader of the page grid for the recorder's tests, written against docs/trace-format.md and sharing
// no code with the analyzer: every frame must verify as the FlatBuffer it claims to be.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "libinject/trace/layout.h"
#include "libinject/trace/trace_generated.h"

namespace gpuwatch::test {

struct Grid {
  std::string bytes;
  const trace::FileHeader* header = nullptr;
  std::vector<const trace::Chunk*> chunks;
  std::map<std::string, std::vector<const uint8_t*>> tables;  // by identifier

  // Slots of one thread in the order they were published.
  std::vector<trace::Slot> slots(uint32_t process, uint32_t thread) const {
    std::map<uint32_t, const trace::Chunk*> ordered;
    for (const auto* chunk : chunks) {
      if (chunk->process() == process && chunk->thread() == thread) ordered[chunk->sequence()] = chunk;
    }
    std::vector<trace::Slot> all;
    for (const auto& [sequence, chunk] : ordered) {
      for (const auto* slot : *chunk->slots()) all.push_back(*slot);
    }
    return all;
  }
  size_t slot_count() const {
    size_t count = 0;
    for (const auto* chunk : chunks) count += chunk->slots()->size();
    return count;
  }
  template <class Table>
  std::vector<const Table*> all(const char* identifier) const {
    std::vector<const Table*> found;
    const auto it = tables.find(identifier);
    if (it == tables.end()) return found;
    for (const auto* data : it->second) found.push_back(flatbuffers::GetSizePrefixedRoot<Table>(data));
    return found;
  }
  // By reason, of one process.
  using Losses = std::map<std::string, uint64_t>;
  Losses losses(uint32_t process) const {
    std::map<uint32_t, std::string> texts;
    for (const auto* text : all<trace::Text>("TEXT")) texts[text->id()] = text->text()->str();
    Losses found;
    for (const auto* loss : all<trace::Loss>("LOSS"))
      if (loss->process() == process) found[texts[loss->reason()]] += loss->count();
    return found;
  }
};

template <class Table>
bool verifies(const uint8_t* frame, size_t size, const char* identifier) {
  flatbuffers::Verifier verifier(frame, size);
  return verifier.VerifySizePrefixedBuffer<Table>(identifier);
}

inline void read_tables(Grid* grid, const trace::TableChunk* chunk) {
  const uint8_t* at = chunk->frames()->data();
  const uint8_t* end = at + chunk->frames()->size();
  while (at < end) {
    ASSERT_GE(end - at, 12);
    const size_t size = flatbuffers::ReadScalar<uint32_t>(at) + 4;
    ASSERT_LE(size, static_cast<size_t>(end - at));
    const std::string identifier(reinterpret_cast<const char*>(at) + 8, 4);
    bool known = false;
#define GW_CHECK(table, name) \
  if (identifier == name) known = verifies<trace::table>(at, size, name);
    GW_TRACE_TABLES(GW_CHECK)
#undef GW_CHECK
    ASSERT_TRUE(known) << "table " << identifier << " does not verify";
    grid->tables[identifier].push_back(at);
    at += (size + 7) & ~size_t{7};
  }
}

inline void read_grid(const std::filesystem::path& path, Grid* grid) {
  std::ifstream in(path, std::ios::binary);
  grid->bytes.assign(std::istreambuf_iterator<char>(in), {});
  ASSERT_GE(grid->bytes.size(), trace::kPageBytes);
  const auto* base = reinterpret_cast<const uint8_t*>(grid->bytes.data());
  const size_t header_size = flatbuffers::ReadScalar<uint32_t>(base) + 4;
  ASSERT_TRUE(verifies<trace::FileHeader>(base, header_size, trace::kHeaderIdentifier));
  grid->header = flatbuffers::GetSizePrefixedRoot<trace::FileHeader>(base);
  for (size_t page = 1; page * trace::kPageBytes < grid->bytes.size();) {
    const uint8_t* frame = base + page * trace::kPageBytes;
    const size_t prefix = flatbuffers::ReadScalar<uint32_t>(frame);
    if (prefix == 0) {
      ++page;
      continue;
    }
    const size_t size = prefix + 4;
    if (!std::memcmp(frame + 8, trace::kChunkIdentifier, 4)) {
      ASSERT_TRUE(verifies<trace::Chunk>(frame, size, trace::kChunkIdentifier));
      grid->chunks.push_back(flatbuffers::GetSizePrefixedRoot<trace::Chunk>(frame));
    } else {
      ASSERT_TRUE(verifies<trace::TableChunk>(frame, size, trace::kTableChunkIdentifier));
      read_tables(grid, flatbuffers::GetSizePrefixedRoot<trace::TableChunk>(frame));
    }
    page += size / trace::kPageBytes;
  }
}

}  // namespace gpuwatch::test
