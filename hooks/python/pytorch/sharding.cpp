// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/pytorch/sharding.h"

#include <cstring>

#include "hooks/python/interpreter/location.h"

namespace gpuwatch::hooks::python {
namespace {

bool starts_with(const char* text, const char* prefix) noexcept {
  return std::strncmp(text, prefix, std::strlen(prefix)) == 0;
}

// Of the interpreter and of typing: base classes that iterate over nothing.
bool is_plain_module(const char* name) noexcept {
  constexpr const char* kPlain[] = {"builtins", "typing", "abc", "collections", "torch.utils.data.dataset"};
  for (const char* plain : kPlain)
    if (starts_with(name, plain)) return true;
  return false;
}

// Of arrays, tensors and tables, which are data and no datasets.
bool is_data_module(const char* name) noexcept {
  return std::strcmp(name, "torch") == 0 || starts_with(name, "numpy") || starts_with(name, "pandas") ||
         starts_with(name, "pyarrow");
}

// Asked of the type, because an attribute of an object may be its own code: a module that is loaded on first
// use.
bool is_a(PyObject* object, const char* type) noexcept {
  return object && std::strcmp(class_name(object).c_str(), type) == 0;
}

// Of the class or its bases, without calling descriptors.
Ref member_of_class(PyObject* type, PyObject* name) noexcept {
  const Ref bases = attribute(type, "__mro__");
  for (SsizeT i = 0; bases && i < g_api.PyTuple_Size(bases.get()); ++i) {
    const Ref members = attribute(g_api.PyTuple_GetItem(bases.get(), i), "__dict__");
    Ref member(members ? g_api.PyObject_GetItem(members.get(), name) : nullptr);
    if (!member) g_api.PyErr_Clear();
    if (is_a(member.get(), "staticmethod") || is_a(member.get(), "classmethod"))
      member = attribute(member.get(), "__func__");
    if (is_a(member.get(), "property")) member = attribute(member.get(), "fget");
    if (member) return member;
  }
  return Ref();
}

class Search {
 public:
  // Whoever iterates over a library's dataset leaves the sharding to it.
  void in_dataset(PyObject* dataset, int depth) noexcept {
    const Ref type(g_api.PyObject_Type(dataset));
    const Ref name(g_api.PyUnicode_InternFromString("__iter__"));
    const Ref iterate = type && name ? member_of_class(type.get(), name.get()) : Ref();
    const Ref module = type ? attribute(type.get(), "__module__") : Ref();
    if (!is_a(iterate.get(), "function") || !text(module.get()) || is_data_module(text(module.get()))) return;
    const Ref code = attribute(iterate.get(), "__code__"), bases = attribute(type.get(), "__mro__");
    is_a_librarys_ |= !code || !is_of_user(code.get());
    for (SsizeT i = 0; bases && i < g_api.PyTuple_Size(bases.get()); ++i)
      is_a_librarys_ |= is_of_library(g_api.PyTuple_GetItem(bases.get(), i));
    if (is_a_librarys_) return;
    const Ref members = attribute(dataset, "__dict__");
    in_function(iterate.get(), type.get(), members.get(), depth);
  }

  Sharding found() const noexcept {
    if (asks_for_worker_) return Sharding::kByWorker;
    return is_a_librarys_ || looked_at_ >= kMostFunctions ? Sharding::kNotKnown : Sharding::kNotSeen;
  }

 private:
  static constexpr int kDeepest = 4;          // functions that call each other, datasets within datasets
  static constexpr int kMostFunctions = 100;  // then it is not known

  static bool is_of_user(PyObject* code) noexcept {
    const Ref file = attribute(code, "co_filename");
    return text(file.get()) && is_users_file(text(file.get()));
  }

  static bool is_of_library(PyObject* type) noexcept {
    const Ref module = attribute(type, "__module__");
    const char* name = text(module.get());
    if (!name || is_plain_module(name)) return false;
    PyObject* loaded = loaded_module(name);
    const Ref file = loaded ? attribute(loaded, "__file__") : Ref();
    return text(file.get()) && !is_users_file(text(file.get()));
  }

  void in_function(PyObject* function, PyObject* type, PyObject* members, int depth) noexcept {
    const Ref code = is_a(function, "function") ? attribute(function, "__code__") : Ref();
    if (!code || !is_of_user(code.get())) return;
    const Ref globals = attribute(function, "__globals__");
    in_code(code.get(), type, members, globals.get(), depth);
  }

  void in_code(PyObject* code, PyObject* type, PyObject* members, PyObject* globals, int depth) noexcept {
    if (depth > kDeepest || ++looked_at_ > kMostFunctions) return;
    const Ref names = attribute(code, "co_names");
    for (SsizeT i = 0; names && i < g_api.PyTuple_Size(names.get()); ++i) {
      PyObject* name = g_api.PyTuple_GetItem(names.get(), i);
      if (!text(name)) continue;
      asks_for_worker_ |= std::strstr(text(name), "worker") != nullptr;
      if (asks_for_worker_) return;
      follow(name, type, members, globals, depth + 1);
    }
    const Ref constants = attribute(code, "co_consts");  // generator expressions and functions within
    for (SsizeT i = 0; constants && i < g_api.PyTuple_Size(constants.get()); ++i) {
      PyObject* constant = g_api.PyTuple_GetItem(constants.get(), i);
      if (is_a(constant, "code")) in_code(constant, type, members, globals, depth + 1);
    }
  }

  // What a name may stand for: a method, a function beside the class, a member that is a dataset itself.
  void follow(PyObject* name, PyObject* type, PyObject* members, PyObject* globals, int depth) noexcept {
    if (const Ref method = member_of_class(type, name)) in_function(method.get(), type, members, depth);
    if (PyObject* global = globals ? g_api.PyDict_GetItemString(globals, text(name)) : nullptr)
      in_function(global, type, members, depth);
    PyObject* member = members ? g_api.PyDict_GetItemString(members, text(name)) : nullptr;
    if (member && depth <= kDeepest) in_dataset(member, depth);
  }

  int looked_at_ = 0;
  bool asks_for_worker_ = false, is_a_librarys_ = false;
};

}  // namespace

Sharding sharding_of(PyObject* loader, PyObject* dataset) noexcept {
  const bool is_iterable = long_attribute(loader, "_dataset_kind", 0) == 1;
  const Ref at_start = attribute(loader, "worker_init_fn");
  if (!dataset || !is_iterable || (at_start && !at_start.is_none())) return Sharding::kNotKnown;
  Search search;
  search.in_dataset(dataset, 0);
  return search.found();
}

}  // namespace gpuwatch::hooks::python
