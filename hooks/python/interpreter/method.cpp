// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/interpreter/method.h"

#include <cstddef>
#include <cstring>

namespace gpuwatch::hooks::python {

namespace {

// PyType_Slot and PyType_Spec; the numbers are typeslots.h's, and part of the stable ABI.
struct TypeSlot {
  int slot;
  void* function;
};
struct TypeSpec {
  const char* name;
  int basic_size;
  int item_size;
  unsigned flags;
  TypeSlot* slots;
};
constexpr int kCall = 50, kDescriptorGet = 54, kGetAttribute = 58, kMethods = 64, kRepr = 66,
              kSetAttribute = 69, kMembers = 72;

struct MemberDef {  // PyMemberDef
  const char* name;
  int type;
  SsizeT offset;
  int flags;
  const char* doc;
};
constexpr int kSsizeT = 19, kReadOnly = 1;  // T_PYSSIZET, READONLY

// Behind the object's header, whose size is the interpreter's (another one without the GIL).
struct Parts {
  PyObject* function;
  PyObject* original;
  void* weak_references;  // the interpreter's
};

constinit PyObject* g_type = nullptr;
constinit long g_header_size = 0;

Parts& parts_of(PyObject* method) noexcept {
  return *reinterpret_cast<Parts*>(reinterpret_cast<char*>(method) + g_header_size);
}

PyObject* call(PyObject* self, PyObject* args, PyObject* keywords) {
  return g_api.PyObject_Call(parts_of(self).function, args, keywords);
}

PyObject* bind(PyObject* self, PyObject* object, PyObject*) {
  if (!object) return Ref::of_borrowed(self).release();
  return g_api.PyMethod_New(self, object);
}

bool is_of_the_type(const char* name) noexcept {
  constexpr const char* kOwn[] = {"__class__", "__call__", "__get__", "__reduce__", "__reduce_ex__"};
  for (const char* own : kOwn)
    if (std::strcmp(name, own) == 0) return true;
  return false;
}

PyObject* get_attribute(PyObject* self, PyObject* name) {
  const char* const bytes = text(name);
  if (bytes && is_of_the_type(bytes)) return g_api.PyObject_GenericGetAttr(self, name);
  if (bytes && std::strcmp(bytes, "__wrapped__") == 0) {  // inspect looks at the source of this
    const Ref inner = attribute(parts_of(self).original, "__wrapped__");
    return Ref::of_borrowed(inner ? inner.get() : parts_of(self).original).release();
  }
  return g_api.PyObject_GetAttr(parts_of(self).original, name);
}

int set_attribute(PyObject* self, PyObject* name, PyObject* value) {
  return g_api.PyObject_SetAttr(parts_of(self).original, name, value);
}

PyObject* repr(PyObject* self) {
  return g_api.PyObject_Repr(parts_of(self).original);
}

PyObject* reduce(PyObject* self, PyObject*) {
  return g_api.PyObject_GetAttrString(parts_of(self).original, "__qualname__");
}
constexpr int kNoArguments = 0x4;  // METH_NOARGS
constinit MethodDef g_methods[] = {{"__reduce__", reduce, kNoArguments, nullptr},
                                   {nullptr, CFunction{}, 0, nullptr}};

template <class Function>
void* address(Function* function) noexcept {
  return reinterpret_cast<void*>(function);
}

bool make_type() noexcept {
  if (g_type) return true;
  g_header_size = long_attribute(g_api.object_type, "__basicsize__", 0);
  if (g_header_size <= 0) return false;
  MemberDef members[] = {{"__weaklistoffset__", kSsizeT,
                          g_header_size + SsizeT{offsetof(Parts, weak_references)}, kReadOnly, nullptr},
                         {}};
  TypeSlot slots[] = {{kCall, address(call)},
                      {kDescriptorGet, address(bind)},
                      {kGetAttribute, address(get_attribute)},
                      {kSetAttribute, address(set_attribute)},
                      {kMethods, g_methods},
                      {kMembers, members},
                      {kRepr, address(repr)},
                      {0, nullptr}};
  TypeSpec spec{"gpuwatch.method", int(g_header_size + long{sizeof(Parts)}), 0, 0, slots};
  g_type = g_api.PyType_FromSpec(&spec);
  return g_type != nullptr;
}

}  // namespace

Ref make_method(PyObject* function, PyObject* original) noexcept {
  if (!make_type()) return Ref();
  Ref method(g_api.PyObject_CallFunctionObjArgs(g_type, nullptr));
  if (!method) return Ref();
  parts_of(method.get()) = {Ref::of_borrowed(function).release(), Ref::of_borrowed(original).release(),
                            nullptr};
  g_api.Py_IncRef(method.get());  // never deallocated
  return method;
}

PyObject* function_of_method(PyObject* object) noexcept {
  if (!g_type || !object) return nullptr;
  const Ref type(g_api.PyObject_Type(object));
  return type.get() == g_type ? parts_of(object).function : nullptr;
}

}  // namespace gpuwatch::hooks::python
