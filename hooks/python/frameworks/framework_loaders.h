// SPDX-License-Identifier: Apache-2.0
// Loaders that are not PyTorch's: tf.data, Ray Data, DALI, and what Keras hands to them. One
// GW_FRAMEWORK_METHOD of libinject/trace/frameworks.def for each wrapped method; its kind says what is
// recorded:
//   Made         __init__ of an iterator: an epoch begins (LoaderStart), with the loader's settings
//   MadeOverDataset   the same of an iterator over a tf.data dataset, whose stages are described
//   NextOfMade   returns a batch, of an iterator that was seen being made (LoaderNext)
//   Next         the same, whoever made it
//   WaitBegins, WaitEnds, EpochEnds   the three calls around the wait of a loader that is a generator
//   GraphCall    the thread is blocked in a graph, whose kernels may wait for data (tf_graph_waits.h)
//   KerasData    what a Keras model was given to train on
// A wait inside another one (an iterator over an iterator) counts once, as the outer one's.
//
// Thread safety: the GIL must be held. Signal safety: none. Errors: what this version of a framework lacks is
// left out.
#pragma once

#include "hooks/python/interpreter/api.h"

namespace gpuwatch::hooks::python {

bool is_framework_module(const char* name) noexcept;
void wrap_framework(const char* name, PyObject* module) noexcept;
void wrap_loaded_frameworks() noexcept;
bool has_met_framework() noexcept;

}  // namespace gpuwatch::hooks::python
