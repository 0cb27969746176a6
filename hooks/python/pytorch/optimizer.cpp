// SPDX-License-Identifier: Apache-2.0
// torch.optim.optimizer: a step, from the first global pre hook to the last global post hook (torch 2.0 and
// newer). A class's `step` cannot be wrapped, because learning rate schedulers use its internals
// (`method.__func__.__get__`). Before 2.0 there are no global hooks, but torch itself wraps the step of each
// class in a Python function that finds the original in a variable of its closure; that variable is
// replaced.
#include "hooks/python/pytorch/optimizer.h"

#include <cstring>

#include "hooks/core/evidence.h"
#include "hooks/core/interrupt.h"
#include "hooks/core/operations.h"
#include "hooks/python/frameworks/versions.h"
#include "hooks/python/interpreter/look_again.h"
#include "hooks/python/interpreter/object.h"
#include "hooks/python/interpreter/wrap.h"
#include "hooks/python/pytorch/apply_to_process.h"
#include "hooks/python/pytorch/debug_switches.h"
#include "hooks/python/pytorch/intra_op_threads.h"
#include "hooks/python/pytorch/process_group.h"
#include "hooks/python/pytorch/step_usage.h"
#include "hooks/stacks/stall_stacks.h"
#include "libinject/base/compiler.h"
#include "libinject/context/sampler.h"
#include "libinject/record/recorder.h"
#include "libinject/trace/layout.h"

namespace gpuwatch::hooks::python {

namespace {

// Optimizers by address, numbered from 1 in the order of their first step. The 64th and later ones share 0.
constexpr uint32_t kOptimizers = 63;
constinit const PyObject* g_optimizers[kOptimizers];

uint32_t number_of(const PyObject* optimizer) noexcept {
  for (uint32_t i = 0; i < kOptimizers; ++i) {
    if (!g_optimizers[i]) g_optimizers[i] = optimizer;
    if (g_optimizers[i] == optimizer) return i + 1;
  }
  return 0;
}

// Open steps of this thread: an optimizer may step another one. A step that raised has no post hook; it is
// dropped when a later one ends or begins.
struct OpenStep {
  const PyObject* optimizer = nullptr;
  record::Scope scope;
};
constexpr uint32_t kNesting = 4;
GW_TLS OpenStep t_steps[kNesting];
GW_TLS uint32_t t_depth = 0;

uint32_t find_open(const PyObject* optimizer) noexcept {
  uint32_t at = t_depth;
  while (at > 0 && t_steps[at - 1].optimizer != optimizer) --at;
  return at;  // 1 more than its place, 0: none
}

PyObject* none() noexcept {
  g_api.Py_IncRef(g_api.none);
  return g_api.none;
}

void begin_step(const PyObject* optimizer) noexcept {
  if (!begin_recording("an optimizer step")) return;
  put_versions();
  stacks::note_training_thread();
  apply_to_process();
  if (const uint32_t at = find_open(optimizer)) t_depth = at - 1;
  if (t_depth == kNesting) t_depth = 0;
  const uint32_t number = number_of(optimizer);
  t_steps[t_depth++] = {optimizer, record::enter(id(Op::python_optimizer_step), number)};
}

constinit LookAgain g_look;

GW_COLD void look() noexcept {
  const record::Quiet quiet;
  const ErrorGuard guard;
  note_debug_switches();
  note_intra_op_threads();
  note_process_group();
}

void end_step(const PyObject* optimizer, uint8_t flags) noexcept {
  if (const uint32_t at = find_open(optimizer)) {
    t_depth = at - 1;
    leave_step(t_steps[t_depth].scope, flags, number_of(optimizer));
    context::maybe_sample(t_steps[t_depth].scope.begin);
    if (g_look.is_due(t_steps[t_depth].scope.begin)) look();
    apply_after_first_step();
    interrupt_if_asked();
  }
}

PyObject* before_step(PyObject*, PyObject* args) {
  PyObject* optimizer = g_api.PyTuple_GetItem(args, 0);
  if (!optimizer) return nullptr;
  begin_step(optimizer);
  return none();
}

PyObject* after_step(PyObject*, PyObject* args) {
  PyObject* optimizer = g_api.PyTuple_GetItem(args, 0);
  if (!optimizer) return nullptr;
  end_step(optimizer, 0);
  return none();
}

constinit MethodDef g_before = {"gpuwatch", before_step, kVarArgs, nullptr};
constinit MethodDef g_after = {"gpuwatch", after_step, kVarArgs, nullptr};

bool add_hook(PyObject* module, const char* add, MethodDef& hook) noexcept {
  const Ref add_function = attribute(module, add);
  const Ref function(g_api.PyCFunction_NewEx(&hook, nullptr, nullptr));
  if (!add_function || !function) return false;
  const Ref handle(g_api.PyObject_CallFunctionObjArgs(add_function.get(), function.get(), nullptr));
  if (!handle) g_api.PyErr_Clear();
  return static_cast<bool>(handle);
}

// The registry that holds our hooks; a module reloaded or imported a second time has another one.
constinit const PyObject* g_registry = nullptr;

// Before 2.0: stands for the original step, `original`, in the closure of torch's wrapper.
PyObject* step(PyObject* original, PyObject* args, PyObject* keywords) {
  PyObject* optimizer = argument(args, keywords, 0, "self");
  if (optimizer) begin_step(optimizer);
  PyObject* result = g_api.PyObject_Call(original, args, keywords);
  if (optimizer) end_step(optimizer, result ? 0 : trace::kFailed);
  return result;
}
constinit MethodDef g_step = {"step", step, kVarArgs | kKeywords, "step($self, closure=None)\n--\n\n"};

// The cell of the variable `name` that `function` closes over.
Ref cell_of(PyObject* function, const char* name) noexcept {
  const Ref code = attribute(function, "__code__");
  const Ref names = code ? attribute(code.get(), "co_freevars") : Ref();
  const Ref cells = names ? attribute(function, "__closure__") : Ref();
  for (SsizeT i = 0; cells && !cells.is_none(); ++i) {
    const Ref candidate = item(names.get(), i);
    if (!candidate) break;
    const char* bytes = text(candidate.get());
    if (bytes && std::strcmp(bytes, name) == 0) return item(cells.get(), i);
  }
  return Ref();
}

// def profile_hook_step(func): def wrapper(*args, **kwargs): ... func(*args, **kwargs); wrapper.hooked = True
void exchange_step(PyObject* optimizer) noexcept {
  const record::Quiet quiet;
  const ErrorGuard guard;
  const Ref type(g_api.PyObject_Type(optimizer));
  const Ref wrapper = attribute(type.get(), "step");
  if (!wrapper || truth_attribute(wrapper.get(), "hooked", 0) != 1) return;
  const Ref cell = cell_of(wrapper.get(), "func");
  const Ref original = cell ? attribute(cell.get(), "cell_contents") : Ref();
  if (!original || is_function_of(original.get(), g_step)) return;
  const Ref ours(g_api.PyCFunction_NewEx(&g_step, original.get(), nullptr));
  if (!ours || g_api.PyObject_SetAttrString(cell.get(), "cell_contents", ours.get()) != 0)
    g_api.PyErr_Clear();
}

// Optimizer._hook_for_profile(self), from its constructor and when it is unpickled: torch wraps the class.
PyObject* hook_for_profile(PyObject* original, PyObject* self) {
  PyObject* result = g_api.PyObject_CallFunctionObjArgs(original, self, nullptr);
  if (result) exchange_step(self);
  return result;
}
constinit Wrapper g_hook_for_profile = {
    "Optimizer", {"_hook_for_profile", hook_for_profile, kOneObject, "_hook_for_profile($self)\n--\n\n"}};

}  // namespace

Parts watch_optimizers(PyObject* module) noexcept {
  const bool has_hooks = static_cast<bool>(attribute(module, "register_optimizer_step_post_hook"));
  if (!has_hooks) return wrap_method(module, g_hook_for_profile) ? 0 : kSteps;
  Ref registry = attribute(module, "_global_optimizer_pre_hooks");
  if (!registry) registry = Ref::of_borrowed(module);
  if (g_registry == registry.get()) return 0;
  if (!add_hook(module, "register_optimizer_step_pre_hook", g_before)) return kSteps;
  if (!add_hook(module, "register_optimizer_step_post_hook", g_after)) return kSteps;
  g_registry = registry.release();
  return 0;
}

}  // namespace gpuwatch::hooks::python
