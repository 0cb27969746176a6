// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/pytorch/plain_objects.h"

namespace gpuwatch::hooks::python {

Ref member(const char* module_name, const char* name) noexcept {
  PyObject* module = loaded_module(module_name);
  return module ? attribute(module, name) : Ref();
}

bool is_exactly(PyObject* object, const Ref& type) noexcept {
  if (!type) return false;
  const Ref own(g_api.PyObject_Type(object));
  return own.get() == type.get();
}

SsizeT size(PyObject* object) noexcept {
  const SsizeT size = g_api.PyObject_Size(object);
  if (size < 0) g_api.PyErr_Clear();
  return size;
}

long asked(PyObject* object, Name& method, long otherwise) noexcept {
  const Ref bound = attribute(object, method);
  const Ref answer(bound ? g_api.PyObject_CallFunctionObjArgs(bound.get(), nullptr) : nullptr);
  if (!answer) g_api.PyErr_Clear();
  return answer ? to_long(answer.get(), otherwise) : otherwise;
}

bool has_torch_function_mode() noexcept {
  PyObject* module = loaded_module("torch._C");
  const Ref count_modes = module ? attribute(module, "_len_torch_function_stack") : Ref();
  if (!count_modes) return false;
  const Ref count(g_api.PyObject_CallFunctionObjArgs(count_modes.get(), nullptr));
  if (!count) g_api.PyErr_Clear();
  return !count || to_long(count.get(), 1) != 0;
}

Ref fields_of_batch(PyObject* batch) noexcept {
#define GW_FRAMEWORK_BATCH(module_prefix, name) \
  if (class_is_from(batch, module_prefix)) return attribute(batch, name);
#include "libinject/trace/frameworks.def"
  return Ref::of_borrowed(batch);
}

}  // namespace gpuwatch::hooks::python
