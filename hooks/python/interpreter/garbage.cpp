// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/interpreter/garbage.h"

#include "hooks/core/operations.h"
#include "hooks/python/interpreter/object.h"
#include "hooks/python/interpreter/wrap.h"
#include "libinject/base/clock.h"
#include "libinject/base/compiler.h"
#include "libinject/record/recorder.h"

namespace gpuwatch::hooks::python {

namespace {

constexpr uint64_t kShortestPauseNs = 100000;

GW_TLS uint64_t t_begin = 0;  // ticks; 0: none under way

PyObject* note_collection(PyObject*, PyObject* args) {
  const char* phase = text(g_api.PyTuple_GetItem(args, 0));
  if (phase && phase[0] == 's' && phase[2] == 'a') {  // "start"
    t_begin = record::is_recording() ? base::ticks() : 0;
  } else if (t_begin) {  // "stop"
    const uint64_t end = base::ticks();
    if (end - t_begin >= base::ticks_of_ns(kShortestPauseNs)) {
      record::span(id(Op::python_garbage_collection), t_begin, end, 0, 0, 0);
    }
    t_begin = 0;
  }
  return Ref::of_borrowed(g_api.none).release();
}
constinit MethodDef g_callback = {"gpuwatch", note_collection, kVarArgs, nullptr};

}  // namespace

bool watch_garbage_collector() noexcept {
  PyObject* gc = loaded_module("gc");
  const Ref callbacks = gc ? attribute(gc, "callbacks") : Ref();
  if (!callbacks) return false;
  for (SsizeT i = g_api.PyList_Size(callbacks.get()) - 1; i >= 0; --i) {
    if (is_function_of(g_api.PyList_GetItem(callbacks.get(), i), g_callback)) return true;
  }
  const Ref function(g_api.PyCFunction_NewEx(&g_callback, nullptr, nullptr));
  const bool is_added = function && g_api.PyList_Append(callbacks.get(), function.get()) == 0;
  if (!is_added) g_api.PyErr_Clear();
  return is_added;
}

}  // namespace gpuwatch::hooks::python
