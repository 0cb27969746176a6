// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/interpreter/finder.h"

#include "hooks/python/interpreter/object.h"
#include "hooks/python/interpreter/wrap.h"
#include "hooks/python/interpreter/wrapped_modules.h"
#include "libinject/record/recorder.h"

namespace gpuwatch::hooks::python {

namespace {

constinit PyObject* g_finder =
    nullptr;  // a module object: the simplest one that can have a function as its attribute

// An attribute of the loader instance, which hides its class's exec_module. `state` is (loader, original
// exec_module).
PyObject* exec_module(PyObject* state, PyObject* module) {
  PyObject* loader = g_api.PyTuple_GetItem(state, 0);
  {
    // Removed first: the loader may be shared (zipimporter), and the module's own imports use it again.
    const ErrorGuard guard;
    if (g_api.PyObject_SetAttrString(loader, "exec_module", nullptr) != 0) g_api.PyErr_Clear();
  }
  PyObject* result = g_api.PyObject_CallFunctionObjArgs(g_api.PyTuple_GetItem(state, 1), module, nullptr);
  if (result) {
    const record::Quiet quiet;
    const ErrorGuard guard;
    const Ref name = attribute(module, "__name__");
    if (const char* bytes = text(name.get())) g_wrapped_modules->wrap(bytes, module);
  }
  return result;
}
constinit MethodDef g_exec_module = {"exec_module", exec_module, kOneObject, nullptr};

void watch_execution(PyObject* spec) noexcept {
  const record::Quiet quiet;
  const Ref loader = attribute(spec, "loader");
  const Ref original = loader ? attribute(loader.get(), "exec_module") : Ref();
  if (!original) return;
  if (is_function_of(original.get(), g_exec_module)) return;
  const Ref state(g_api.PyTuple_Pack(2, loader.get(), original.get()));
  const Ref ours(state ? g_api.PyCFunction_NewEx(&g_exec_module, state.get(), nullptr) : nullptr);
  if (!ours || g_api.PyObject_SetAttrString(loader.get(), "exec_module", ours.get()) != 0)
    g_api.PyErr_Clear();
}

// The answer of the finders after ours: a spec, None, or null with an exception set.
PyObject* ask_others(PyObject* args) noexcept {
  PyObject* path = g_api.PySys_GetObject("meta_path");
  if (!path) return Ref::of_borrowed(g_api.none).release();
  const Ref list = Ref::of_borrowed(path);
  bool is_behind_us = false;
  for (SsizeT i = 0; i < g_api.PyList_Size(list.get()); ++i) {  // it may change meanwhile
    const Ref finder = Ref::of_borrowed(g_api.PyList_GetItem(list.get(), i));
    if (finder.get() == g_finder) {
      is_behind_us = true;
      continue;
    }
    if (!is_behind_us) continue;
    const Ref find = attribute(finder.get(), "find_spec");
    if (!find) continue;
    Ref spec(g_api.PyObject_Call(find.get(), args, nullptr));
    if (!spec || !spec.is_none()) return spec.release();
  }
  g_api.PyErr_Clear();
  return Ref::of_borrowed(g_api.none).release();
}

// find_spec(name, path=None, target=None)
PyObject* find_spec(PyObject*, PyObject* args) {
  PyObject* name = g_api.PyTuple_GetItem(args, 0);
  if (!name) return nullptr;
  const char* bytes = text(name);
  if (!bytes || !g_wrapped_modules->is_wrapped(bytes)) return Ref::of_borrowed(g_api.none).release();
  PyObject* spec = ask_others(args);
  if (spec && spec != g_api.none) watch_execution(spec);
  return spec;
}
constinit MethodDef g_find_spec = {"find_spec", find_spec, kVarArgs, nullptr};

}  // namespace

bool install_finder() noexcept {
  PyObject* path = g_api.PySys_GetObject("meta_path");
  if (!path || g_api.PyList_Size(path) < 0) {
    g_api.PyErr_Clear();
    return false;
  }
  Ref finder(g_api.PyModule_New("gpuwatch"));
  const Ref function(g_api.PyCFunction_NewEx(&g_find_spec, nullptr, nullptr));
  if (!finder || !function || g_api.PyObject_SetAttrString(finder.get(), "find_spec", function.get()) != 0 ||
      g_api.PyList_Insert(path, 0, finder.get()) != 0) {
    g_api.PyErr_Clear();
    return false;
  }
  g_finder = finder.release();
  return true;
}

}  // namespace gpuwatch::hooks::python
