// SPDX-License-Identifier: Apache-2.0
// A place in the program between two hooked calls: told by the calls before and after it, with their callers
// and the kernels that they launched, as far as known.
#pragma once

#include <cstdint>

#include "analyzer/attribute/process_view.h"

namespace gpuwatch::attribute {

// Own code with a call before and after it.
bool is_between_calls(const Activity& activity, size_t stretch_index);

// The same for two visits of one place. Requires is_between_calls().
uint64_t place_of(const ProcessView& view, uint32_t thread, size_t stretch_index);

}  // namespace gpuwatch::attribute
