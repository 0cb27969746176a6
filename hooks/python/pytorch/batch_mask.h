// SPDX-License-Identifier: Apache-2.0
// Lengths of the samples of a batch by the mask that lies in it: a tokenizer's `attention_mask`, or a tensor
// whose rows are ones and then zeros, next to one of the same size. A dataset that pads its samples itself
// hands on samples of one size, and only their mask says how long they were. Whether an element of the mask
// is 1 or 0 is all that is read of a batch's contents.
//
// Cost: 10 us, with a mask a system call for each 4 KiB of it, 16 at most; what is none ends at its first
// row. The kernel copies it (unwind/foreign_memory.h): a tensor of a mapped file that was cut short is a
// failed read. Thread safety: the GIL must be held. Signal safety: none. Errors: a pending exception is kept.
#pragma once

#include <cstdint>

#include "hooks/python/interpreter/object.h"
#include "libinject/trace/trace_generated.h"

namespace gpuwatch::hooks::python {

// False where the batch has no such mask in the host's memory, or one without zeros. `samples`: of the batch;
// the detail holds the first of them, as many as were read.
bool lengths_by_mask(PyObject* batch, trace::ShapeDetail* shape, uint32_t* samples) noexcept;

}  // namespace gpuwatch::hooks::python
