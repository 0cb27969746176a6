// SPDX-License-Identifier: Apache-2.0
// Slices that tile a span by construction: each call fills from where the last one ended, so no nanosecond
// can be missed or counted twice. Everything that decides causes writes through this. Times in ns.
#pragma once

#include <vector>

#include "analyzer/attribute/attribution.h"

namespace gpuwatch::attribute {

struct Cause {
  Category category = Category::Unknown;
  uint32_t thread = model::kNone;
  uint32_t call = model::kNone;
  uint16_t stream = 0xffff;
  friend bool operator==(const Cause&, const Cause&) = default;
};

class Tiling {
 public:
  explicit Tiling(model::Ns begin) : cursor_(begin) {}

  // From the cursor to `end`; nothing when `end` is not after the cursor. Equal neighbours become one slice.
  void fill(model::Ns end, const Cause& cause);
  // The same, but at most `limit_ns` long; returns what was filled.
  model::Ns fill_at_most(model::Ns end, model::Ns limit_ns, const Cause& cause);

  model::Ns cursor() const { return cursor_; }
  const std::vector<Slice>& slices() const { return slices_; }
  std::vector<Slice> take() { return std::move(slices_); }

 private:
  model::Ns cursor_;
  std::vector<Slice> slices_;
};

}  // namespace gpuwatch::attribute
