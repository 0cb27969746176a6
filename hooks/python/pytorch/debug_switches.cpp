// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/pytorch/debug_switches.h"

#include "hooks/python/interpreter/object.h"
#include "libinject/base/compiler.h"
#include "libinject/record/recorder.h"

namespace gpuwatch::hooks::python {

namespace {

struct Switch {
  const char* module;
  const char* question;
  const char* fact;
  bool was_on;
};

// Under the GIL; forked children inherit what was written.
constinit Switch g_switches[] = {
    {"torch", "is_anomaly_enabled", "anomaly_mode", false},
    {"torch.autograd", "_profiler_enabled", "profiler", false},
    {"torch", "are_deterministic_algorithms_enabled", "deterministic_algorithms", false},
};

}  // namespace

GW_COLD void note_debug_switches() noexcept {
  for (Switch& it : g_switches) {
    PyObject* const module = it.was_on ? nullptr : loaded_module(it.module);
    if (!module || answer_of(module, it.question) != 1) continue;
    it.was_on = true;
    record::put_fact(it.fact, "on");
  }
}

}  // namespace gpuwatch::hooks::python
