// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/interpreter/location.h"

#include <cstring>

#include "hooks/python/interpreter/object.h"

namespace gpuwatch::hooks::python {

namespace {

constexpr int kMaxFrames = 200;

enum class Owner { kUser, kLibrary, kStartScript, kTorchOrInterpreter };

// ".../lib/python3.11/contextlib.py"
bool is_standard_library(const char* file) noexcept {
  const char* at = std::strstr(file, "/lib/python3.");
  if (!at) return false;
  at += std::strlen("/lib/python3.");
  while (*at >= '0' && *at <= '9') ++at;
  return *at == '/';
}

bool is_torch(const char* file) noexcept {
  return std::strstr(file, "-packages/torch/") || std::strstr(file, "/torch/utils/data/");
}

// What dataclasses, attrs and namedtuple compile has no line to show, though it belongs to the module that
// asked for it. A script given as text (`python -c`) has the same file name, but its module has no file.
bool is_generated(PyObject* frame, const char* file) noexcept {
  if (std::strcmp(file, "<string>") != 0 && std::strncmp(file, "<attrs ", 7) != 0) return false;
  const Ref globals = attribute(frame, "f_globals");
  return globals && g_api.PyDict_GetItemString(globals.get(), "__file__") != nullptr;
}

// Functions that TensorFlow's autograph has rewritten, in a temporary file that is deleted at exit.
bool is_rewritten(const char* file) noexcept {
  return std::strstr(file, "/__autograph_generated_file") != nullptr;
}

Owner owner_of_file(const char* file) noexcept {
  if (std::strncmp(file, "<frozen ", 8) == 0 || is_torch(file) || is_rewritten(file))
    return Owner::kTorchOrInterpreter;
  if (std::strstr(file, "/site-packages/") || std::strstr(file, "/dist-packages/")) return Owner::kLibrary;
  return is_standard_library(file) ? Owner::kTorchOrInterpreter : Owner::kUser;
}

// What pip writes for a package's program: the top level of ".../bin/yolo", which only calls the package.
bool is_start_script(PyObject* frame, const char* file) noexcept {
  constexpr char kFolder[] = "/bin/";
  constexpr size_t kLength = sizeof(kFolder) - 1;
  const char* slash = std::strrchr(file, '/');
  if (!slash || std::strchr(slash, '.') || size_t(slash + 1 - file) < kLength) return false;
  if (std::strncmp(slash + 1 - kLength, kFolder, kLength) != 0) return false;
  const Ref code = attribute(frame, "f_code");
  const Ref name = code ? attribute(code.get(), "co_name") : Ref();
  return text(name.get()) && std::strcmp(text(name.get()), "<module>") == 0;
}

Owner owner_of(PyObject* frame, const char* file) noexcept {
  if (is_generated(frame, file)) return Owner::kTorchOrInterpreter;
  return is_start_script(frame, file) ? Owner::kStartScript : owner_of_file(file);
}

Location location_of(PyObject* frame, const char* file) noexcept {
  Location location;
  location.add(file).add(':').add(static_cast<uint64_t>(long_attribute(frame, "f_lineno", 0)));
  return location;
}

}  // namespace

bool is_users_file(const char* file) noexcept {
  return owner_of_file(file) == Owner::kUser;
}

bool is_users_frame(PyObject* frame, const char* file) noexcept {
  return owner_of(frame, file) == Owner::kUser;
}

Location users_location() noexcept {
  const ErrorGuard guard;
  Location in_library, in_start_script;
  Ref frame = Ref::of_borrowed(g_api.PyEval_GetFrame());
  for (int depth = 0; frame && !frame.is_none() && depth < kMaxFrames; ++depth) {
    const Ref code = attribute(frame.get(), "f_code");
    const Ref name = code ? attribute(code.get(), "co_filename") : Ref();
    if (const char* file = text(name.get())) {
      const Owner owner = owner_of(frame.get(), file);
      if (owner == Owner::kUser) return location_of(frame.get(), file);
      if (owner == Owner::kLibrary && in_library.size() == 0) in_library = location_of(frame.get(), file);
      if (owner == Owner::kStartScript) in_start_script = location_of(frame.get(), file);
    }
    frame = attribute(frame.get(), "f_back");
  }
  return in_library.size() ? in_library : in_start_script;
}

FunctionPlace place_of_function(PyObject* function) noexcept {
  constexpr int kMaxDecorators = 8;  // functools.wraps leaves the decorated function in __wrapped__
  Ref inner = Ref::of_borrowed(function);
  for (int i = 0; inner && i < kMaxDecorators; ++i) {
    Ref wrapped = attribute(inner.get(), "__wrapped__");
    if (!wrapped) break;
    inner = static_cast<Ref&&>(wrapped);
  }
  FunctionPlace place;
  const Ref code = inner ? attribute(inner.get(), "__code__") : Ref();
  const Ref file = code ? attribute(code.get(), "co_filename") : Ref();
  const Ref name = code ? attribute(inner.get(), "__qualname__") : Ref();
  if (!text(file.get()) || !text(name.get())) return place;
  place.add(text(file.get())).add(':');
  place.add(static_cast<uint64_t>(long_attribute(code.get(), "co_firstlineno", 0))).add(' ');
  return place.add(text(name.get()));
}

}  // namespace gpuwatch::hooks::python
