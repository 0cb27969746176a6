// SPDX-License-Identifier: Apache-2.0
// Whether an IterableDataset gives each worker a part of its data. Each worker iterates over a copy of the
// whole dataset (torch.utils.data, "Iterable-style datasets"): without code that asks which worker it runs
// in, two workers yield every sample twice, and advice for more of them would change what is trained on.
//
// Reads code objects: the dataset's __iter__, the functions of the user's that it names, and the datasets
// that it iterates over. Runs none of it. Asked when an epoch begins: 7 us, 16 of a dataset within two
// others. Thread safety: the GIL must be held. Signal safety: none. Errors: none, an unknown dataset is
// kNotKnown.
#pragma once

#include "hooks/python/interpreter/object.h"

namespace gpuwatch::hooks::python {

// Values of LoaderInfo.sharding.
enum class Sharding : uint32_t {
  kNotKnown = 0,  // not iterable, a library's, or split by worker_init_fn
  kNotSeen = 1,   // no code that asks for the worker
  kByWorker = 2,
};

Sharding sharding_of(PyObject* loader, PyObject* dataset) noexcept;

}  // namespace gpuwatch::hooks::python
