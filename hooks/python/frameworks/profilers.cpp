// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/frameworks/profilers.h"

#include <cstring>

#include "hooks/cupti/cupti.h"
#include "hooks/python/interpreter/wrap.h"

namespace gpuwatch::hooks::python {

namespace {

constexpr int kCall = kVarArgs | kKeywords;
constexpr char kTensorFlow[] = "TensorFlow's profiler", kJax[] = "JAX's profiler";

// Set with the wrapper, by wrap_function().
constinit PyObject* g_tf_start = nullptr;
constinit PyObject* g_tf_stop = nullptr;
constinit PyObject* g_jax_start = nullptr;
constinit PyObject* g_jax_stop = nullptr;
constinit PyObject* g_jax_stop_for_fdo = nullptr;

// Each has one profile at a time. Under the GIL.
constinit bool g_tf_is_on = false, g_jax_is_on = false;

void end(bool& is_on) noexcept {
  if (is_on) cupti::take_back();
  is_on = false;
}

// Not noexcept: a thread that ends in the job's code unwinds through here.
template <PyObject*& original, bool& is_on, const char* name>
PyObject* start(PyObject*, PyObject* args, PyObject* keywords) {
  const bool is_first = !is_on;  // the second is refused, and the first goes on
  if (is_first) is_on = cupti::make_way(name);
  PyObject* result = g_api.PyObject_Call(original, args, keywords);
  if (!result && is_first) end(is_on);
  return result;
}

// Ended even where it raises: neither can be stopped twice.
template <PyObject*& original, bool& is_on>
PyObject* stop(PyObject*, PyObject* args, PyObject* keywords) {
  PyObject* result = g_api.PyObject_Call(original, args, keywords);
  end(is_on);
  return result;
}

struct Function {
  const char* module;
  MethodDef wrapper;
  PyObject*& original;
};
#define GW_TF_PROFILER "tensorflow.python.profiler.profiler_v2"
#define GW_JAX_PROFILER "jax._src.profiler"
constinit Function g_functions[] = {
    {GW_TF_PROFILER,
     {"start", start<g_tf_start, g_tf_is_on, kTensorFlow>, kCall, "start(logdir, options=None)\n--\n\n"},
     g_tf_start},
    {GW_TF_PROFILER, {"stop", stop<g_tf_stop, g_tf_is_on>, kCall, "stop(save=True)\n--\n\n"}, g_tf_stop},
    {GW_JAX_PROFILER,
     {"start_trace", start<g_jax_start, g_jax_is_on, kJax>, kCall,
      "start_trace(log_dir, *args, **kwargs)\n--\n\n"},
     g_jax_start},
    {GW_JAX_PROFILER,
     {"stop_trace", stop<g_jax_stop, g_jax_is_on>, kCall, "stop_trace()\n--\n\n"},
     g_jax_stop},
    {GW_JAX_PROFILER,
     {"stop_and_get_fdo_profile", stop<g_jax_stop_for_fdo, g_jax_is_on>, kCall,
      "stop_and_get_fdo_profile()\n--\n\n"},
     g_jax_stop_for_fdo},
};
#undef GW_TF_PROFILER
#undef GW_JAX_PROFILER

}  // namespace

bool is_profiler_module(const char* name) noexcept {
  for (const Function& function : g_functions)
    if (std::strcmp(function.module, name) == 0) return true;
  return false;
}

void wrap_profiler(const char* name, PyObject* module) noexcept {
  for (Function& function : g_functions)
    if (std::strcmp(function.module, name) == 0) wrap_function(module, function.wrapper, function.original);
}

void wrap_loaded_profilers() noexcept {
  for (Function& function : g_functions)
    if (PyObject* module = loaded_module(function.module))
      wrap_function(module, function.wrapper, function.original);
}

}  // namespace gpuwatch::hooks::python
