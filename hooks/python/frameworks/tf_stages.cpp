// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/frameworks/tf_stages.h"

#include <sys/mman.h>

#include <cstring>

#include "hooks/python/interpreter/object.h"
#include "libinject/base/syscall.h"

namespace gpuwatch::hooks::python {

namespace {

constexpr size_t kStages = 256;
constinit TfStage* g_stages = nullptr;  // mapped on first use: most processes have no tf.data
constinit size_t g_next_stage = 0;

// Python that was registered since the last dataset.
struct Registered {
  char python[sizeof TfStage::python];
  char code[sizeof TfStage::code];
};
constinit Registered g_registered{};

template <size_t kCapacity>
void keep(char (&to)[kCapacity], const char* from, size_t length) noexcept {
  if (length >= kCapacity) length = 0;  // half a path is no place
  std::memcpy(to, from, length);
  to[length] = 0;
}

bool ends_with(const char* text, const char* end) noexcept {
  const size_t length = std::strlen(text), end_length = std::strlen(end);
  return length >= end_length && std::strcmp(text + length - end_length, end) == 0;
}

// Whether a function of this file of TensorFlow's is on the stack.
bool is_within(const char* file_end) noexcept {
  constexpr int kMaxFrames = 300;
  Ref frame = Ref::of_borrowed(g_api.PyEval_GetFrame());
  for (int depth = 0; frame && !frame.is_none() && depth < kMaxFrames; ++depth) {
    const Ref code = attribute(frame.get(), "f_code");
    const Ref file = code ? attribute(code.get(), "co_filename") : Ref();
    const char* path = text(file.get());
    if (path && ends_with(path, file_end)) return true;
    frame = attribute(frame.get(), "f_back");
  }
  return false;
}

TfStage* place_for(const PyObject* dataset) noexcept {
  if (!g_stages)
    g_stages = static_cast<TfStage*>(base::sys_mmap(kStages * sizeof(TfStage), PROT_READ | PROT_WRITE,
                                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (!g_stages) return nullptr;
  for (size_t i = 0; i < kStages; ++i)
    if (g_stages[i].dataset == dataset) return &g_stages[i];
  TfStage* place = &g_stages[g_next_stage];
  g_next_stage = (g_next_stage + 1) % kStages;
  return place;
}

}  // namespace

void note_stage(const PyObject* dataset) noexcept {
  const ErrorGuard guard;
  if (is_within("/data/ops/structured_function.py")) return;  // another dataset's function is being traced
  const Registered registered = g_registered;
  g_registered = {};
  TfStage* stage = place_for(dataset);
  if (!stage) return;
  const Location location = users_location();
  *stage = {};
  stage->dataset = dataset;
  keep(stage->location, location.c_str(), location.size());
  keep(stage->python, registered.python, std::strlen(registered.python));
  keep(stage->code, registered.code, std::strlen(registered.code));
}

// EagerFunc holds a py_function's function; a numpy_function's is registered itself.
void note_python_function(PyObject* registered) noexcept {
  const ErrorGuard guard;
  const Ref inner = attribute(registered, "_func");
  const char* python = is_within("/data/ops/from_generator_op.py") ? "from_generator"
                       : inner                                     ? "tf.py_function"
                                                                   : "tf.numpy_function";
  keep(g_registered.python, python, std::strlen(python));
  const FunctionPlace code = place_of_function(inner ? inner.get() : registered);
  // TensorFlow's functions around a generator say nothing of the user's.
  const bool is_packaged = std::strstr(code.c_str(), "-packages/") != nullptr;
  keep(g_registered.code, code.c_str(), is_packaged ? 0 : code.size());
}

bool has_forgotten_stages() noexcept {
  return g_stages && g_stages[g_next_stage].dataset;
}

const TfStage* stage_of(const PyObject* dataset) noexcept {
  for (size_t i = 0; g_stages && i < kStages; ++i)
    if (g_stages[i].dataset == dataset) return &g_stages[i];
  return nullptr;
}

}  // namespace gpuwatch::hooks::python
