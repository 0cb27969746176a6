// SPDX-License-Identifier: Apache-2.0
// How long operations of a device ran within the recorded steps, by any grouping of them; and how long those
// of one group ran alone, which is the most that a step can get shorter without them. Pure; n log n in the
// operations.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analyzer/attribute/attribution.h"
#include "analyzer/model/run.h"

namespace gpuwatch::attribute {

inline constexpr uint16_t kNoGroup = 0xffff;  // takes no part, as if it did not run

struct GroupTime {
  model::Ns ns = 0;        // sum over operations
  model::Ns alone_ns = 0;  // while no operation of another group ran
  size_t count = 0;        // operations, also those that are partly outside of the steps
};

// `groups`: of each operation of the row's device, below `count` or kNoGroup.
std::vector<GroupTime> group_times(const model::Device& device, const RankAttribution& row,
                                   std::span<const uint16_t> groups, size_t count);

}  // namespace gpuwatch::attribute
