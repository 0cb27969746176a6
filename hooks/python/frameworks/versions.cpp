// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/frameworks/versions.h"

#include "hooks/python/interpreter/frame_check.h"
#include "hooks/python/interpreter/interpreter_entry.h"
#include "hooks/python/interpreter/object.h"
#include "libinject/record/recorder.h"

namespace gpuwatch::hooks::python {

namespace {

constexpr const char* kModules[] = {
#define GW_FRAMEWORK_VERSION(module, name, runs_training) module,
#include "libinject/trace/frameworks.def"
};

constinit bool g_is_done = false;  // under the GIL; forked children share the file, and inherit this

void put_text_attribute(const char* key, PyObject* object, const char* name) noexcept {
  const Ref value = attribute(object, name);
  if (const char* bytes = !value || value.is_none() ? nullptr : text(value.get()))
    record::put_fact(key, bytes);
}

}  // namespace

void put_versions() noexcept {
  if (g_is_done || !record::is_recording()) return;
  g_is_done = true;
  const record::Quiet quiet;
  const ErrorGuard guard;
  put_interpreter_facts();
  check_frames();
  for (const char* name : kModules) {
    if (PyObject* module = loaded_module(name)) put_text_attribute(name, module, "__version__");
  }
  PyObject* torch = loaded_module("torch");
  if (!torch) return;
  const Ref version = attribute(torch, "version");
  if (version) put_text_attribute("torch.cuda", version.get(), "cuda");
}

}  // namespace gpuwatch::hooks::python
