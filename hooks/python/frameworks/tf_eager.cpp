// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/frameworks/tf_eager.h"

#include "hooks/python/interpreter/look_again.h"
#include "hooks/python/interpreter/object.h"

namespace gpuwatch::hooks::python {

namespace {

constinit bool g_keras_is_eager = false;  // under the GIL
constinit SwitchFact g_keras("keras_run_eagerly"), g_functions("tf_run_functions_eagerly");

bool functions_run_eagerly() noexcept {
  PyObject* module = loaded_module("tensorflow.python.eager.polymorphic_function.eager_function_run");
  return module && truth_attribute(module, "RUN_FUNCTIONS_EAGERLY", 0) == 1;
}

}  // namespace

void note_keras_model(PyObject* model) noexcept {
  const record::Quiet quiet;
  const ErrorGuard guard;
  g_keras_is_eager = truth_attribute(model, "run_eagerly", 0) == 1;
}

GW_COLD void note_eager_switches() noexcept {
  if (g_keras_is_eager) g_keras.put_on();
  if (!g_functions.is_put() && functions_run_eagerly()) g_functions.put_on();
}

}  // namespace gpuwatch::hooks::python
