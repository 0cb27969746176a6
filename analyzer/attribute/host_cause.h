// SPDX-License-Identifier: Apache-2.0
// The category of host time while the device is idle, for calls that need no other evidence than what they
// are. Waits and data loading are not here: they depend on what others do.
#pragma once

#include "analyzer/attribute/attribution.h"
#include "analyzer/attribute/process_view.h"

namespace gpuwatch::attribute {

// Between two calls of a launching thread, up to this long is the framework on its way to the next launch
// (PyTorch takes 5 to 50 us an operation, an optimizer's Python loop some 100 us); beyond, it is other work.
inline constexpr model::Ns kDispatchNs = 1'000'000;

Category category_of_call(const ProcessView& view, uint32_t thread, uint32_t call);
Category category_of_own_code(const Stretch& stretch);

// Launching work, as opposed to waiting or doing something else: what a full queue hides.
bool is_feeding(Category category);

}  // namespace gpuwatch::attribute
