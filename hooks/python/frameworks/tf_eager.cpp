// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/frameworks/tf_eager.h"

#include "hooks/python/interpreter/object.h"
#include "libinject/base/compiler.h"
#include "libinject/record/recorder.h"

namespace gpuwatch::hooks::python {

namespace {

// Under the GIL; forked children inherit what was written.
constinit bool g_keras_is_eager = false, g_is_keras_put = false, g_are_functions_put = false;

bool functions_run_eagerly() noexcept {
  PyObject* module = loaded_module("tensorflow.python.eager.polymorphic_function.eager_function_run");
  return module && truth_attribute(module, "RUN_FUNCTIONS_EAGERLY", 0) == 1;
}

void put_once(bool is_on, const char* fact, bool& is_put) noexcept {
  if (!is_on || is_put) return;
  is_put = true;
  record::put_fact(fact, "on");
}

}  // namespace

void note_keras_model(PyObject* model) noexcept {
  const record::Quiet quiet;
  const ErrorGuard guard;
  g_keras_is_eager = truth_attribute(model, "run_eagerly", 0) == 1;
}

GW_COLD void note_eager_switches() noexcept {
  put_once(g_keras_is_eager, "keras_run_eagerly", g_is_keras_put);
  put_once(functions_run_eagerly(), "tf_run_functions_eagerly", g_are_functions_put);
}

}  // namespace gpuwatch::hooks::python
