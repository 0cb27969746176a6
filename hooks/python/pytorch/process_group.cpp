// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/pytorch/process_group.h"

#include "hooks/python/interpreter/object.h"
#include "libinject/base/clock.h"
#include "libinject/base/compiler.h"
#include "libinject/base/text.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/fork_epoch.h"

namespace gpuwatch::hooks::python {

namespace {

constexpr uint64_t kPeriodNs = 1'000'000'000;

// Under the GIL. A forked child may join another group than its parent.
constinit uint64_t g_next_look = 0;
constinit uint32_t g_looked_in = 0;  // runtime::epoch()

long ask(PyObject* group, const char* question) noexcept {
  const Ref method = attribute(group, question);
  if (!method) return -1;
  const Ref answer(g_api.PyObject_CallFunctionObjArgs(method.get(), nullptr));
  if (!answer) g_api.PyErr_Clear();
  return answer ? to_long(answer.get(), -1) : -1;
}

void put_number(const char* fact, long number) noexcept {
  base::Text<32> text;
  text.add(static_cast<uint64_t>(number));
  record::put_fact(fact, text.c_str());
}

// torch.distributed.distributed_c10d._world._default_pg: a plain attribute, so that no property runs.
GW_COLD void look(uint64_t now) noexcept {
  if (!record::is_recording()) return;
  g_next_look = now + base::ticks_of_ns(kPeriodNs);
  const record::Quiet quiet;
  const ErrorGuard guard;
  PyObject* const module = loaded_module("torch.distributed.distributed_c10d");
  const Ref world = module ? attribute(module, "_world") : Ref();
  const Ref group = world ? attribute(world.get(), "_default_pg") : Ref();
  if (!group || group.is_none()) return;
  const long rank = ask(group.get(), "rank"), size = ask(group.get(), "size");
  if (rank < 0 || size < 1) return;
  put_number("process_group.rank", rank);
  put_number("process_group.size", size);
  g_next_look = UINT64_MAX;
}

}  // namespace

void note_process_group(uint64_t now) noexcept {
  if (GW_UNLIKELY(g_looked_in != runtime::epoch())) {
    g_looked_in = runtime::epoch();
    g_next_look = 0;
  }
  if (GW_UNLIKELY(now >= g_next_look)) look(now);
}

}  // namespace gpuwatch::hooks::python
