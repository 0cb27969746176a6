// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/interpreter/object.h"

#include <cstring>

namespace gpuwatch::hooks::python {

namespace {

Ref cleared_if_null(PyObject* object) noexcept {
  if (!object) g_api.PyErr_Clear();
  return Ref(object);
}

}  // namespace

Ref attribute(PyObject* object, const char* name) noexcept {
  return cleared_if_null(g_api.PyObject_GetAttrString(object, name));
}

Ref attribute(PyObject* object, Name& name) noexcept {
  return cleared_if_null(g_api.PyObject_GetAttr(object, name.get()));
}

Ref item(PyObject* sequence, SsizeT index) noexcept {
  return cleared_if_null(g_api.PySequence_GetItem(sequence, index));
}

long to_long(PyObject* object, long otherwise) noexcept {
  const long value = g_api.PyLong_AsLong(object);
  if (value != -1) return value;
  g_api.PyErr_Clear();
  return otherwise;
}

long answer_of(PyObject* object, const char* question) noexcept {
  const Ref function = attribute(object, question);
  if (!function) return -1;
  const Ref answer(g_api.PyObject_CallFunctionObjArgs(function.get(), nullptr));
  if (!answer) g_api.PyErr_Clear();
  return answer ? to_long(answer.get(), -1) : -1;
}

long long_attribute(PyObject* object, const char* name, long otherwise) noexcept {
  const Ref value = attribute(object, name);
  return value ? to_long(value.get(), otherwise) : otherwise;
}

long long_attribute(PyObject* object, Name& name, long otherwise) noexcept {
  const Ref value = attribute(object, name);
  return value ? to_long(value.get(), otherwise) : otherwise;
}

int truth_attribute(PyObject* object, const char* name, int otherwise) noexcept {
  const Ref value = attribute(object, name);
  if (!value) return otherwise;
  const int truth = g_api.PyObject_IsTrue(value.get());
  if (truth >= 0) return truth;
  g_api.PyErr_Clear();
  return otherwise;
}

const char* text(PyObject* object) noexcept {
  if (!object) return nullptr;
  const char* bytes = g_api.PyUnicode_AsUTF8AndSize(object, nullptr);
  if (!bytes) g_api.PyErr_Clear();
  return bytes;
}

Label class_name(PyObject* object) noexcept {
  Label label;
  const Ref type(g_api.PyObject_Type(object));
  const Ref name = attribute(type.get(), "__qualname__");
  if (const char* bytes = text(name.get())) label.add(bytes);
  return label;
}

bool class_is_from(PyObject* object, const char* module_prefix) noexcept {
  const Ref type(g_api.PyObject_Type(object));
  const Ref module = attribute(type.get(), "__module__");
  const char* name = text(module.get());
  return name && std::strncmp(name, module_prefix, std::strlen(module_prefix)) == 0;
}

PyObject* loaded_module(const char* name) noexcept {
  PyObject* modules = g_api.PyImport_GetModuleDict();
  return modules ? g_api.PyDict_GetItemString(modules, name) : nullptr;
}

PyObject* argument(PyObject* args, PyObject* keywords, SsizeT index, const char* name) noexcept {
  if (index < g_api.PyTuple_Size(args)) return g_api.PyTuple_GetItem(args, index);
  return keywords ? g_api.PyDict_GetItemString(keywords, name) : nullptr;
}

}  // namespace gpuwatch::hooks::python
