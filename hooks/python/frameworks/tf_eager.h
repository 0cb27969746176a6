// SPDX-License-Identifier: Apache-2.0
// TensorFlow's switches that run a training step operation by operation from Python, instead of as one graph:
// run_eagerly of a Keras model, tf.config.run_functions_eagerly(). They are meant for debugging. Each that is
// found on becomes a fact, once. Thread safety: the GIL must be held. Signal safety: none.
#pragma once

#include "hooks/python/interpreter/api.h"

namespace gpuwatch::hooks::python {

// A Keras model that is about to train; perhaps before the recording begins.
void note_keras_model(PyObject* model) noexcept;

void note_eager_switches() noexcept;  // 1 us

}  // namespace gpuwatch::hooks::python
