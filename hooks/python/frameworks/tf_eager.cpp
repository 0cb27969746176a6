// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/frameworks/tf_eager.h"

#include "hooks/python/interpreter/object.h"
#include "libinject/base/clock.h"
#include "libinject/base/compiler.h"
#include "libinject/record/recorder.h"

namespace gpuwatch::hooks::python {

namespace {

constexpr uint64_t kPeriodNs = 1'000'000'000;

// Under the GIL; forked children inherit what was written.
constinit bool g_keras_is_eager = false, g_is_keras_put = false, g_are_functions_put = false;
constinit uint64_t g_next_look = 0;

bool functions_run_eagerly() noexcept {
  PyObject* module = loaded_module("tensorflow.python.eager.polymorphic_function.eager_function_run");
  return module && truth_attribute(module, "RUN_FUNCTIONS_EAGERLY", 0) == 1;
}

GW_COLD void look(uint64_t now) noexcept {
  if (!record::is_recording()) return;
  g_next_look = now + base::ticks_of_ns(kPeriodNs);
  const record::Quiet quiet;
  const ErrorGuard guard;
  if (g_keras_is_eager && !g_is_keras_put) {
    g_is_keras_put = true;
    record::put_fact("keras_run_eagerly", "on");
  }
  if (!g_are_functions_put && functions_run_eagerly()) {
    g_are_functions_put = true;
    record::put_fact("tf_run_functions_eagerly", "on");
  }
}

}  // namespace

void note_keras_model(PyObject* model) noexcept {
  const record::Quiet quiet;
  const ErrorGuard guard;
  g_keras_is_eager = truth_attribute(model, "run_eagerly", 0) == 1;
}

void note_eager_switches(uint64_t now) noexcept {
  if (GW_UNLIKELY(now >= g_next_look)) look(now);
}

}  // namespace gpuwatch::hooks::python
