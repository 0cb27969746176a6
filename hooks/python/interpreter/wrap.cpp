// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/interpreter/wrap.h"

#include "hooks/python/interpreter/method.h"

namespace gpuwatch::hooks::python {

bool is_function_of(PyObject* function, const MethodDef& def) noexcept {
  void* const address = g_api.PyCFunction_GetFunction(function);
  if (!address) g_api.PyErr_Clear();
  return address == __builtin_bit_cast(void*, def.function);
}

bool wrap_method(PyObject* module, Wrapper& wrapper) noexcept {
  const Ref owner = attribute(module, wrapper.class_name);
  if (!owner) return false;
  const Ref original = attribute(owner.get(), wrapper.method.name);
  if (!original) return false;
  PyObject* const ours = function_of_method(original.get());
  if (ours && is_function_of(ours, wrapper.method)) return true;
  const Ref function(g_api.PyCFunction_NewEx(&wrapper.method, original.get(), nullptr));
  const Ref method = function ? make_method(function.get(), original.get()) : Ref();
  const bool is_set =
      method && g_api.PyObject_SetAttrString(owner.get(), wrapper.method.name, method.get()) == 0;
  if (!is_set) g_api.PyErr_Clear();
  return is_set;
}

bool wrap_function(PyObject* module, MethodDef& function, PyObject*& original) noexcept {
  Ref present = attribute(module, function.name);
  if (!present) return false;
  if (is_function_of(present.get(), function)) return true;
  const Ref name = attribute(module, "__name__");
  const Ref ours(g_api.PyCFunction_NewEx(&function, nullptr, name.get()));
  if (!ours || g_api.PyObject_SetAttrString(module, function.name, ours.get()) != 0) {
    g_api.PyErr_Clear();
    return false;
  }
  original = present.release();
  return true;
}

}  // namespace gpuwatch::hooks::python
