// SPDX-License-Identifier: Apache-2.0
// The category of host time while the device is idle, for calls that need no other evidence than what they
// are. Waits and data loading are not here: they depend on what others do.
#pragma once

#include "analyzer/attribute/attribution.h"
#include "analyzer/attribute/process_view.h"

namespace gpuwatch::attribute {

Category category_of_call(const ProcessView& view, uint32_t thread, uint32_t call);

// Launching work, as opposed to waiting or doing something else: what a full queue hides.
bool is_feeding(Category category);

}  // namespace gpuwatch::attribute
