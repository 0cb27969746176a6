// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/facts.h"

#include <atomic>
#include <cstring>

#include "hooks/python/object.h"
#include "hooks/python/stack.h"
#include "hooks/python/targets.h"
#include "libinject/record/recorder.h"

namespace gpuwatch::hooks::python {

namespace {

constinit std::atomic<bool> g_has_version{false};
constinit bool g_is_done = false;  // under the GIL; forked children share the file, and inherit this

void put_text_attribute(const char* key, PyObject* object, const char* name) noexcept {
  const Ref value = attribute(object, name);
  if (const char* bytes = !value || value.is_none() ? nullptr : text(value.get()))
    record::put_fact(key, bytes);
}

}  // namespace

void put_python_facts() noexcept {
  put_state_of_targets();
  if (g_has_version.exchange(true, std::memory_order_relaxed)) return;
  base::Text<32> version;
  const char* full = g_api.Py_GetVersion();
  version.add(full, std::strcspn(full, " "));
  record::put_fact("python", version.c_str());
}

void put_torch_facts() noexcept {
  if (g_is_done || !record::is_recording()) return;
  g_is_done = true;
  const record::Quiet quiet;
  const ErrorGuard guard;
  put_python_facts();
  prepare_stacks();
  for (const char* name : {"tensorflow", "keras", "jax", "ray"}) {
    if (PyObject* module = loaded_module(name)) put_text_attribute(name, module, "__version__");
  }
  PyObject* torch = loaded_module("torch");
  if (!torch) return;
  put_text_attribute("torch", torch, "__version__");
  const Ref version = attribute(torch, "version");
  if (version) put_text_attribute("torch.cuda", version.get(), "cuda");
}

}  // namespace gpuwatch::hooks::python
