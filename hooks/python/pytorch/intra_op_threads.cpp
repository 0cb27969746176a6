// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/pytorch/intra_op_threads.h"

#include "hooks/python/interpreter/object.h"
#include "libinject/base/compiler.h"
#include "libinject/base/text.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/fork_epoch.h"

namespace gpuwatch::hooks::python {

namespace {

// Under the GIL. A forked child that trains has other facts.
constinit bool g_is_put = false;
constinit uint32_t g_put_in = 0;  // runtime::epoch()

GW_COLD void put() noexcept {
  g_is_put = true;
  g_put_in = runtime::epoch();
  const record::Quiet quiet;
  const ErrorGuard guard;
  PyObject* torch = loaded_module("torch");
  const Ref question =
      torch ? attribute(torch, "get_num_threads") : Ref();  // a builtin: no code of the job's runs
  if (!question) return;
  const Ref answer(g_api.PyObject_CallFunctionObjArgs(question.get(), nullptr));
  const long threads = answer ? g_api.PyLong_AsLong(answer.get()) : -1;
  if (threads < 0) g_api.PyErr_Clear();
  if (threads <= 0) return;
  base::Text<24> text;
  record::put_fact("torch_threads", text.add(static_cast<uint64_t>(threads)).c_str());
}

}  // namespace

void put_intra_op_threads() noexcept {
  if (GW_UNLIKELY(!g_is_put || g_put_in != runtime::epoch())) put();
}

}  // namespace gpuwatch::hooks::python
