// SPDX-License-Identifier: Apache-2.0
// Loaders that are not PyTorch's: tf.data, Ray Data, DALI, and what Keras passes to them. Each wrapped method
// is a GW_FRAMEWORK_METHOD of libinject/trace/frameworks.def; its kind says what is recorded:
//   Made              __init__ of an iterator: an epoch begins (LoaderStart), with the loader's settings
//   MadeOverDataset   the same for an iterator over a tf.data dataset, whose stages are described
//   NextOfMade        returns a batch, of an iterator whose __init__ was seen (LoaderNext)
//   Next              returns a batch, of any iterator
//   WaitBegins, WaitEnds, EpochEnds   the three calls around the wait of a loader that is a generator
//   GraphCall         the thread runs a graph, whose kernels may wait for data (tf_graph_waits.h)
//   JaxCompiles       compiles what the thread is about to compute
//   SettingsMade      makes an object that holds the settings of the framework's loaders, on the user's line
//   StageMade         constructs a stage of a tf.data pipeline, on the user's line (tf_stages.h)
//   PythonInStage     registers a Python function that TensorFlow will call (tf_stages.h)
//   KerasData         the data that a Keras model is given to train on
//   KerasTrains       a Keras model is about to train (tf_eager.h)
// A wait inside another one (an iterator over an iterator) is part of the outer one.
//
// Thread safety: the GIL must be held. Signal safety: none. Errors: a method that this version of a framework
// does not have is left out.
#pragma once

#include "hooks/python/interpreter/api.h"

namespace gpuwatch::hooks::python {

bool is_framework_module(const char* name) noexcept;
void wrap_framework(const char* name, PyObject* module) noexcept;
void wrap_loaded_frameworks() noexcept;
bool has_met_framework() noexcept;

}  // namespace gpuwatch::hooks::python
