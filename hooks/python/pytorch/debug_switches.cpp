// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/pytorch/debug_switches.h"

#include "hooks/python/interpreter/look_again.h"
#include "hooks/python/interpreter/object.h"

namespace gpuwatch::hooks::python {

namespace {

struct Switch {
  const char* module;
  const char* question;
  SwitchFact fact;
};

constinit Switch g_switches[] = {
    {"torch", "is_anomaly_enabled", SwitchFact("anomaly_mode")},
    {"torch.autograd", "_profiler_enabled", SwitchFact("profiler")},
    {"torch", "are_deterministic_algorithms_enabled", SwitchFact("deterministic_algorithms")},
};

}  // namespace

GW_COLD void note_debug_switches() noexcept {
  for (Switch& it : g_switches) {
    PyObject* const module = it.fact.is_put() ? nullptr : loaded_module(it.module);
    if (module && answer_of(module, it.question) == 1) it.fact.put_on();
  }
}

}  // namespace gpuwatch::hooks::python
