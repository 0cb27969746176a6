// SPDX-License-Identifier: Apache-2.0
// A Loss (trace.fbs) counts dropped records, and says why. One whose reason begins as below counts what is in
// the trace without a part that a full table had no room for: nothing was dropped.
#pragma once

#include <string_view>

#define GW_INCOMPLETE "incomplete: "

namespace gpuwatch::trace {

inline constexpr std::string_view kIncomplete = GW_INCOMPLETE;

}  // namespace gpuwatch::trace
