// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/interpreter/location.h"

#include <cstring>

#include "hooks/python/interpreter/object.h"

namespace gpuwatch::hooks::python {

namespace {

constexpr int kMaxFrames = 200;

enum class Owner { kUser, kLibrary, kTorchOrInterpreter };

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

Owner owner_of(const char* file) noexcept {
  if (std::strncmp(file, "<frozen ", 8) == 0 || is_torch(file)) return Owner::kTorchOrInterpreter;
  if (std::strstr(file, "/site-packages/") || std::strstr(file, "/dist-packages/")) return Owner::kLibrary;
  return is_standard_library(file) ? Owner::kTorchOrInterpreter : Owner::kUser;
}

Location location_of(PyObject* frame, const char* file) noexcept {
  Location location;
  location.add(file).add(':').add(static_cast<uint64_t>(long_attribute(frame, "f_lineno", 0)));
  return location;
}

}  // namespace

bool is_users_file(const char* path) noexcept {
  return owner_of(path) == Owner::kUser;
}

Location users_location() noexcept {
  const ErrorGuard guard;
  Location in_library;
  Ref frame = Ref::of_borrowed(g_api.PyEval_GetFrame());
  for (int depth = 0; frame && !frame.is_none() && depth < kMaxFrames; ++depth) {
    const Ref code = attribute(frame.get(), "f_code");
    const Ref name = code ? attribute(code.get(), "co_filename") : Ref();
    if (const char* file = text(name.get())) {
      const Owner owner = owner_of(file);
      if (owner == Owner::kUser) return location_of(frame.get(), file);
      if (owner == Owner::kLibrary && in_library.size() == 0) in_library = location_of(frame.get(), file);
    }
    frame = attribute(frame.get(), "f_back");
  }
  return in_library;
}

}  // namespace gpuwatch::hooks::python
