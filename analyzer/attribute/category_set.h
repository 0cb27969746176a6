// SPDX-License-Identifier: Apache-2.0
// Some of the categories: what a rule explains. A plain value, safe to share between threads.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "analyzer/attribute/attribution.h"

namespace gpuwatch::attribute {

class CategorySet {
 public:
  constexpr CategorySet() = default;
  constexpr CategorySet(std::initializer_list<Category> members) {
    for (const Category member : members) bits_ |= bit(member);
  }
  // All that the verdict adds up under `bottleneck`.
  constexpr CategorySet(Bottleneck bottleneck) {
    for (size_t i = 0; i < kCategoryCount; ++i)
      if (kCategories[i].bottleneck == bottleneck) bits_ |= bit(static_cast<Category>(i));
  }
  constexpr bool contains(Category category) const { return (bits_ & bit(category)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr CategorySet operator|(CategorySet other) const {
    other.bits_ |= bits_;
    return other;
  }

 private:
  static_assert(kCategoryCount <= 64);
  static constexpr uint64_t bit(Category category) { return uint64_t{1} << static_cast<size_t>(category); }
  uint64_t bits_ = 0;
};

}  // namespace gpuwatch::attribute
