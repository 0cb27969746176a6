// SPDX-License-Identifier: Apache-2.0
// torch.nn.Module.eval(): where an evaluation begins, and in which function, also where it reads no loader.
// Module.train() is not wrapped: it calls itself for each of hundreds of submodules, eval() does not.
#include "hooks/python/pytorch/evaluation.h"

#include "hooks/core/operations.h"
#include "hooks/python/interpreter/wrap.h"
#include "hooks/stacks/stall_stacks.h"
#include "libinject/record/recorder.h"
#include "libinject/trace/layout.h"

namespace gpuwatch::hooks::python {

namespace {

// Module.eval(self)
PyObject* eval(PyObject* original, PyObject* self) {
  if (!record::is_recording()) return g_api.PyObject_CallFunctionObjArgs(original, self, nullptr);
  const record::Scope scope = record::enter(id(Op::python_module_eval));
  PyObject* result = g_api.PyObject_CallFunctionObjArgs(original, self, nullptr);
  record::leave(scope, result ? 0 : trace::kFailed, 0, 0);
  stacks::record_stack(scope);
  return result;
}

constinit Wrapper g_eval = {"Module", {"eval", eval, kOneObject, "eval($self)\n--\n\n"}};

}  // namespace

Parts wrap_module_eval(PyObject* module) noexcept {
  return wrap_method(module, g_eval) ? 0 : kEvaluations;
}

}  // namespace gpuwatch::hooks::python
