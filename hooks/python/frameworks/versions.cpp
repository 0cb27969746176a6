// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/frameworks/versions.h"

#include <cstring>

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

constexpr size_t kModuleCount = sizeof kModules / sizeof kModules[0];

using Version = char[64];
constinit Version g_versions[kModuleCount]{};
constinit Version g_torch_cuda{};
constexpr char kJaxCompiles[] = "jax_compiles";
constinit bool g_jax_compiles = false;  // under the GIL
constinit bool g_is_done = false;       // under the GIL; forked children share the file, and inherit this

void read_text_attribute(Version& to, PyObject* object, const char* name) noexcept {
  const Ref value = attribute(object, name);
  const char* bytes = !value || value.is_none() ? nullptr : text(value.get());
  const size_t length = bytes ? std::strlen(bytes) : 0;
  if (length == 0 || length >= sizeof to) return;
  std::memcpy(to, bytes, length + 1);
}

}  // namespace

void read_versions() noexcept {
  const record::Quiet quiet;
  const ErrorGuard guard;
  check_frames();
  for (size_t i = 0; i < kModuleCount; ++i) {
    if (PyObject* module = loaded_module(kModules[i]))
      read_text_attribute(g_versions[i], module, "__version__");
  }
  PyObject* torch = loaded_module("torch");
  const Ref version = torch ? attribute(torch, "version") : Ref();
  if (version) read_text_attribute(g_torch_cuda, version.get(), "cuda");
}

void write_versions() noexcept {
  g_is_done = true;
  put_interpreter_facts();
  put_frames_state();
  for (size_t i = 0; i < kModuleCount; ++i)
    if (g_versions[i][0]) record::put_fact(kModules[i], g_versions[i]);
  if (g_torch_cuda[0]) record::put_fact("torch.cuda", g_torch_cuda);
  if (g_jax_compiles) record::put_fact(kJaxCompiles, "yes");
}

void note_jax_compiles() noexcept {
  if (g_jax_compiles) return;
  g_jax_compiles = true;
  if (g_is_done) record::put_fact(kJaxCompiles, "yes");
}

void put_versions() noexcept {
  if (g_is_done || !record::is_recording()) return;
  read_versions();
  write_versions();
}

}  // namespace gpuwatch::hooks::python
