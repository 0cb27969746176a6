// SPDX-License-Identifier: Apache-2.0
// The parts of PyTorch's data loading and training that are recorded, each by its own wrappers. A version of
// PyTorch may lack the class or method of a part. Each wrap_*() of this folder returns the parts that it
// could not wrap.
#pragma once

#include <cstdint>

namespace gpuwatch::hooks::python {

using Parts = uint32_t;
inline constexpr Parts kEpochs = 1, kFurtherEpochs = 2, kIndices = 4, kReceipts = 8, kFetches = 16,
                       kPinning = 32, kSteps = 64, kCheckpoints = 128, kStateful = 256, kEvaluations = 512;

}  // namespace gpuwatch::hooks::python
