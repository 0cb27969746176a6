// SPDX-License-Identifier: Apache-2.0
// A lane of a timeline, small enough for a browser: where there are too many slices, short ones that follow
// each other are drawn together, and the lane says how short. Pure functions.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/attribute/attribution.h"
#include "analyzer/model/run.h"

namespace gpuwatch::page {

// Each text once: slices name it by its index.
class Names {
 public:
  uint32_t index_of(const std::string& text);
  const std::vector<std::string>& all() const { return all_; }

 private:
  std::unordered_map<std::string, uint32_t> indices_;
  std::vector<std::string> all_;
};

struct Slice {
  model::Ns begin = 0, end = 0;
  uint32_t name = 0;   // of the largest, where several are drawn together
  uint32_t depth = 0;  // calls nest
  attribute::Bottleneck tone = attribute::Bottleneck::Other;  // its color
  uint32_t count = 1;                                         // slices drawn together
  model::Ns covered = 0;                                      // of [begin, end), by these slices
  uint32_t batch = model::kNone;  // of a loader's lane: index into the details of its batches
};

struct Lane {
  std::string name;
  std::vector<Slice> slices;     // by begin, outer before inner
  model::Ns drawn_together = 0;  // slices shorter than this are; 0: each is drawn
};

// Outer before inner: the depth of each is the number of slices around it.
void nest(Lane& lane);

// So that all lanes have about `most` slices: those with few keep them all.
void reduce(std::vector<Lane>& lanes, size_t most);

// Each slice as [begin, length, name, depth, tone, count, covered, batch], the last three only where they are
// not the usual; times in ns after `origin`.
nlohmann::ordered_json json(const Lane& lane, model::Ns origin);

}  // namespace gpuwatch::page
