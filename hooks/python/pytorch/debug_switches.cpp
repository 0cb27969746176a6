// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/pytorch/debug_switches.h"

#include "hooks/python/interpreter/object.h"
#include "libinject/base/clock.h"
#include "libinject/base/compiler.h"
#include "libinject/record/recorder.h"

namespace gpuwatch::hooks::python {

namespace {

constexpr uint64_t kPeriodNs = 1'000'000'000;

struct Switch {
  const char* module;
  const char* question;  // a builtin without arguments: no code of the job's runs
  const char* fact;
  bool was_on;
};

// Under the GIL; forked children inherit what was written.
constinit Switch g_switches[] = {
    {"torch", "is_anomaly_enabled", "anomaly_mode", false},
    {"torch.autograd", "_profiler_enabled", "profiler", false},
    {"torch", "are_deterministic_algorithms_enabled", "deterministic_algorithms", false},
};
constinit uint64_t g_next_look = 0;

bool is_on(const Switch& it) noexcept {
  PyObject* module = loaded_module(it.module);
  const Ref question = module ? attribute(module, it.question) : Ref();
  if (!question) return false;
  const Ref answer(g_api.PyObject_CallFunctionObjArgs(question.get(), nullptr));
  if (!answer) g_api.PyErr_Clear();
  return answer && g_api.PyObject_IsTrue(answer.get()) == 1;
}

GW_COLD void look(uint64_t now) noexcept {
  if (!record::is_recording()) return;
  g_next_look = now + base::ticks_of_ns(kPeriodNs);
  const record::Quiet quiet;
  const ErrorGuard guard;
  for (Switch& it : g_switches) {
    if (it.was_on || !is_on(it)) continue;
    it.was_on = true;
    record::put_fact(it.fact, "on");
  }
}

}  // namespace

void note_debug_switches(uint64_t now) noexcept {
  if (GW_UNLIKELY(now >= g_next_look)) look(now);
}

}  // namespace gpuwatch::hooks::python
