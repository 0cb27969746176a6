// SPDX-License-Identifier: Apache-2.0
// The device's timeline, merged over its streams: at each nanosecond the first of compute, communication,
// copy to the device, copy from it, copy within it, else idle. Linear in the number of operations. Times in
// ns.
#pragma once

#include <span>
#include <vector>

#include "analyzer/attribute/attribution.h"

namespace gpuwatch::attribute {

struct DeviceSegment {
  model::Ns begin;
  model::Ns end;
  bool idle;
  Category category = Category::Unknown;  // when busy
  uint32_t operation = model::kNone;  // busy: an operation that runs. Idle: the one that ends the gap, if any
  uint32_t previous = model::kNone;   // idle: the one whose end began the gap, if any
};

// Operations sorted by begin. The segments tile `window`.
std::vector<DeviceSegment> sweep(std::span<const model::DeviceOp> operations,
                                 std::span<const model::Kernel> kernels, model::TimeSpan window);

}  // namespace gpuwatch::attribute
