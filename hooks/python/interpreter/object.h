// SPDX-License-Identifier: Apache-2.0
// Holders that keep reference counts and Python's error indicator right without exceptions, and reads of
// attributes that do not raise. Thread safety: the GIL must be held. Signal safety: none. Errors: a failed
// read clears Python's error and returns an empty Ref or the given default; where an exception may be
// pending it needs an ErrorGuard around it.
#pragma once

#include <cstddef>

#include "hooks/python/interpreter/api.h"
#include "libinject/base/text.h"

namespace gpuwatch::hooks::python {

// Owns one reference, or none.
class Ref {
 public:
  Ref() noexcept = default;
  explicit Ref(PyObject* owned) noexcept : object_(owned) {}
  Ref(Ref&& other) noexcept : object_(other.release()) {}
  Ref& operator=(Ref&& other) noexcept {
    PyObject* before = object_;
    object_ = other.release();
    if (before) g_api.Py_DecRef(before);
    return *this;
  }
  ~Ref() noexcept {
    if (object_) g_api.Py_DecRef(object_);
  }
  static Ref of_borrowed(PyObject* borrowed) noexcept {
    if (borrowed) g_api.Py_IncRef(borrowed);
    return Ref(borrowed);
  }
  PyObject* get() const noexcept { return object_; }
  PyObject* release() noexcept {
    PyObject* object = object_;
    object_ = nullptr;
    return object;
  }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  bool is_none() const noexcept { return object_ == g_api.none; }

 private:
  PyObject* object_ = nullptr;
};

// Puts the pending exception, if any, aside and back.
class ErrorGuard {
 public:
  ErrorGuard() noexcept { g_api.PyErr_Fetch(&type_, &value_, &traceback_); }
  ~ErrorGuard() noexcept { g_api.PyErr_Restore(type_, value_, traceback_); }
  ErrorGuard(const ErrorGuard&) = delete;
  ErrorGuard& operator=(const ErrorGuard&) = delete;

 private:
  PyObject* type_ = nullptr;
  PyObject* value_ = nullptr;
  PyObject* traceback_ = nullptr;
};

// An attribute name made once; looking up by char* makes a string each time (60 ns).
class Name {
 public:
  constexpr explicit Name(const char* text) noexcept : text_(text) {}
  PyObject* get() noexcept {
    if (!object_) object_ = g_api.PyUnicode_InternFromString(text_);
    return object_;
  }

 private:
  const char* text_;
  PyObject* object_ = nullptr;  // immortal
};

Ref attribute(PyObject* object, const char* name) noexcept;
Ref attribute(PyObject* object, Name& name) noexcept;
Ref item(PyObject* sequence, SsizeT index) noexcept;

long to_long(PyObject* object, long otherwise) noexcept;
// What a function without arguments answers, a number or a truth; -1 without an answer. For the framework's
// own, which neither wait nor print.
long answer_of(PyObject* object, const char* question) noexcept;
long long_attribute(PyObject* object, const char* name, long otherwise) noexcept;
long long_attribute(PyObject* object, Name& name, long otherwise) noexcept;
int truth_attribute(PyObject* object, const char* name, int otherwise) noexcept;  // 0, 1

// Text of a str object, valid as long as the object; null if it is none.
const char* text(PyObject* object) noexcept;
using Label = base::Text<256>;
Label class_name(PyObject* object) noexcept;  // qualified, without the module
bool class_is_from(PyObject* object, const char* module_prefix) noexcept;

PyObject* loaded_module(const char* name) noexcept;  // borrowed, null if not in sys.modules

// Positional argument `index` of a call, or the keyword `name`; borrowed, null if absent.
PyObject* argument(PyObject* args, PyObject* keywords, SsizeT index, const char* name) noexcept;

}  // namespace gpuwatch::hooks::python
