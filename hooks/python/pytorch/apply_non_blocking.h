// SPDX-License-Identifier: Apache-2.0
// non_blocking=True for the host-to-device copies of batches that the DataLoader pinned, where GPUWATCH_APPLY
// asks for it. Only the very tensors that the loader's pin_memory made are copied so: a buffer that the
// script pinned itself may be written again while a copy that does not block still reads it. Thread safety:
// the GIL must be held. Signal safety: none.
#pragma once

#include "hooks/python/interpreter/api.h"

namespace gpuwatch::hooks::python {

// Makes Tensor.to() and Tensor.cuda() of marked tensors non-blocking. False if this PyTorch has none.
bool copy_without_blocking() noexcept;

// `tensor` is part of a batch that a loader's pin_memory made; anything else than a tensor is left alone.
void mark_pinned(PyObject* tensor) noexcept;

}  // namespace gpuwatch::hooks::python
