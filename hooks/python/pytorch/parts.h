// SPDX-License-Identifier: Apache-2.0
// What of a PyTorch can be seen, each by wrappers of its own: a version that lacks a class or method does not
// show the part. Each wrap_*() of this folder answers with the parts that stay unseen.
#pragma once

#include <cstdint>

namespace gpuwatch::hooks::python {

using Parts = uint32_t;
inline constexpr Parts kPasses = 1, kFurtherPasses = 2, kIndices = 4, kReceipts = 8, kFetches = 16,
                       kPinning = 32, kSteps = 64, kCheckpoints = 128, kStateful = 256;

}  // namespace gpuwatch::hooks::python
