// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/interpreter/api.h"

#include <dlfcn.h>

namespace gpuwatch::hooks::python {

constinit Api g_api;

namespace {

template <class Function>
bool find(Function& to, const char* name) noexcept {
  to = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  return to != nullptr;
}

}  // namespace

const char* load_api() noexcept {
  Api api;
#define GW_FIND(result, name, parameters) \
  if (!find(api.name, #name)) return #name;
  GW_PYTHON_API(GW_FIND)
#undef GW_FIND
  if (!find(api.current_thread_state, "PyThreadState_GetUnchecked") &&
      !find(api.current_thread_state, "_PyThreadState_UncheckedGet")) {
    return "PyThreadState_GetUnchecked";
  }
  if (!find(api.is_finalizing, "Py_IsFinalizing")) find(api.is_finalizing, "_Py_IsFinalizing");
  if (!find(api.none, "_Py_NoneStruct")) return "_Py_NoneStruct";
  if (!find(api.object_type, "PyBaseObject_Type")) return "PyBaseObject_Type";
  g_api = api;
  return nullptr;
}

}  // namespace gpuwatch::hooks::python
