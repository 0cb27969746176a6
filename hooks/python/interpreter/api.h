// SPDX-License-Identifier: Apache-2.0
// The part of CPython's C interface that the Python source uses, found by dlsym() in the process's global
// scope: libgpuwatch.so neither includes Python's headers nor links against libpython, so that one build
// serves every interpreter, static (Debian's /usr/bin/python3) or shared. All functions are in the stable
// ABI, or have been exported under the same name from 3.9 to 3.14.
//
// Thread safety: load_api() any; everything in g_api but the first group needs the GIL. Signal safety: none.
// Errors: load_api() names what is missing; then the Python source stays out.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpuwatch::hooks::python {

struct PyObject;  // opaque
using SsizeT = ptrdiff_t;
using CFunction = PyObject* (*)(PyObject*, PyObject*);
using KeywordFunction = PyObject* (*)(PyObject*, PyObject*, PyObject*);
union AnyFunction {
  constexpr AnyFunction(CFunction function) noexcept : plain(function) {}
  constexpr AnyFunction(KeywordFunction function) noexcept : with_keywords(function) {}
  CFunction plain;
  KeywordFunction with_keywords;
};
struct MethodDef {  // PyMethodDef
  const char* name;
  AnyFunction function;
  int flags;
  const char* doc;
};
inline constexpr int kVarArgs = 0x1;    // METH_VARARGS
inline constexpr int kKeywords = 0x2;   // METH_KEYWORDS
inline constexpr int kOneObject = 0x8;  // METH_O

// X(result, name, parameters)
#define GW_PYTHON_API(X)                                              \
  X(int, Py_IsInitialized, ())                                        \
  X(const char*, Py_GetVersion, ())                                   \
  X(int, PyGILState_Check, ())                                        \
  X(int, PyGILState_Ensure, ())                                       \
  X(void, PyGILState_Release, (int))                                  \
  X(void*, PyGILState_GetThisThreadState, ())                         \
  X(void, Py_IncRef, (PyObject*))                                     \
  X(void, Py_DecRef, (PyObject*))                                     \
  X(void, PyErr_Clear, ())                                            \
  X(void, PyErr_Fetch, (PyObject**, PyObject**, PyObject**))          \
  X(void, PyErr_Restore, (PyObject*, PyObject*, PyObject*))           \
  X(PyObject*, PyObject_GetAttr, (PyObject*, PyObject*))              \
  X(PyObject*, PyObject_GetAttrString, (PyObject*, const char*))      \
  X(int, PyObject_SetAttr, (PyObject*, PyObject*, PyObject*))         \
  X(int, PyObject_SetAttrString, (PyObject*, const char*, PyObject*)) \
  X(PyObject*, PyObject_CallFunctionObjArgs, (PyObject*, ...))        \
  X(PyObject*, PyObject_Call, (PyObject*, PyObject*, PyObject*))      \
  X(PyObject*, PyObject_Type, (PyObject*))                            \
  X(PyObject*, PyObject_Repr, (PyObject*))                            \
  X(int, PyObject_IsTrue, (PyObject*))                                \
  X(SsizeT, PyObject_Size, (PyObject*))                               \
  X(PyObject*, PySequence_GetItem, (PyObject*, SsizeT))               \
  X(PyObject*, PyObject_GetItem, (PyObject*, PyObject*))              \
  X(PyObject*, PyTuple_New, (SsizeT))                                 \
  X(int, PyTuple_SetItem, (PyObject*, SsizeT, PyObject*))             \
  X(PyObject*, PyTuple_GetItem, (PyObject*, SsizeT))                  \
  X(SsizeT, PyTuple_Size, (PyObject*))                                \
  X(PyObject*, PyTuple_Pack, (SsizeT, ...))                           \
  X(SsizeT, PyList_Size, (PyObject*))                                 \
  X(PyObject*, PyList_GetItem, (PyObject*, SsizeT))                   \
  X(int, PyList_Insert, (PyObject*, SsizeT, PyObject*))               \
  X(int, PyList_Append, (PyObject*, PyObject*))                       \
  X(PyObject*, PyBool_FromLong, (long))                               \
  X(PyObject*, PyDict_New, ())                                        \
  X(PyObject*, PyDict_Copy, (PyObject*))                              \
  X(PyObject*, PyDict_GetItemString, (PyObject*, const char*))        \
  X(int, PyDict_SetItemString, (PyObject*, const char*, PyObject*))   \
  X(PyObject*, PyDict_Keys, (PyObject*))                              \
  X(PyObject*, PyDict_Values, (PyObject*))                            \
  X(PyObject*, PyLong_FromLong, (long))                               \
  X(long, PyLong_AsLong, (PyObject*))                                 \
  X(const char*, PyUnicode_AsUTF8AndSize, (PyObject*, SsizeT*))       \
  X(PyObject*, PyUnicode_InternFromString, (const char*))             \
  X(PyObject*, PyCFunction_NewEx, (MethodDef*, PyObject*, PyObject*)) \
  X(void*, PyCFunction_GetFunction, (PyObject*))                      \
  X(PyObject*, PyMethod_New, (PyObject*, PyObject*))                  \
  X(PyObject*, PyType_FromSpec, (void*))                              \
  X(PyObject*, PyObject_GenericGetAttr, (PyObject*, PyObject*))       \
  X(PyObject*, PyModule_New, (const char*))                           \
  X(PyObject*, PyWeakref_NewRef, (PyObject*, PyObject*))              \
  X(PyObject*, PyImport_GetModuleDict, ())                            \
  X(PyObject*, PySys_GetObject, (const char*))                        \
  X(PyObject*, PyEval_GetFrame, ())                                   \
  X(void*, PyInterpreterState_Get, ())                                \
  X(void*, PyInterpreterState_Main, ())

struct Api {
#define GW_MEMBER(result, name, parameters) result(*name) parameters = nullptr;
  GW_PYTHON_API(GW_MEMBER)
#undef GW_MEMBER
  void* (*current_thread_state)() = nullptr;  // PyThreadState_GetUnchecked (3.13) and its older name
  int (*is_finalizing)() = nullptr;           // may stay null: Py_IsFinalizing is public since 3.13 only
  PyObject* none = nullptr;
  PyObject* object_type = nullptr;
};
extern constinit Api g_api;

// Fills g_api in. Null on success, else the name of the first function that this interpreter lacks. Takes 10
// us.
const char* load_api() noexcept;

}  // namespace gpuwatch::hooks::python
