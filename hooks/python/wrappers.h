// SPDX-License-Identifier: Apache-2.0
// What each wrapped module of torch gets; one source file each (loader.cpp, fetch.cpp, pin.cpp,
// optimizer.cpp, checkpoint.cpp, garbage.cpp). Called with the module, under the GIL, possibly more than
// once.
#pragma once

#include "hooks/python/api.h"

namespace gpuwatch::hooks::python {

// What of a PyTorch can be seen, each by wrappers of its own.
using Parts = uint32_t;
inline constexpr Parts kPasses = 1, kFurtherPasses = 2, kIndices = 4, kReceipts = 8, kFetches = 16,
                       kPinning = 32, kSteps = 64, kCheckpoints = 128, kStateful = 256;

// Each answers with the parts that this version of the module does not show.
Parts wrap_loader(PyObject* module) noexcept;
Parts wrap_stateful_loader(PyObject* module) noexcept;
Parts wrap_fetchers(PyObject* module) noexcept;
Parts wrap_pinning(PyObject* module) noexcept;
Parts watch_optimizers(PyObject* module) noexcept;
Parts wrap_checkpoints(PyObject* module) noexcept;
bool watch_garbage_collector() noexcept;  // wherever `gc` has been imported; torch imports it

}  // namespace gpuwatch::hooks::python
