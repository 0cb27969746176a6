// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/frameworks/framework.h"

#include <cstring>

#include "hooks/python/interpreter/location.h"
#include "hooks/python/interpreter/object.h"

namespace gpuwatch::hooks::python {

namespace {

constexpr int kMaxFrames = 200;

struct Package {
  const char* name;
  const char* framework;
};
constexpr Package kPackages[] = {
#define GW_FRAMEWORK_PACKAGE(package, framework) {package, framework},
#include "libinject/trace/frameworks.def"
};

// "lightning.pytorch.trainer" is of the package "lightning", "lightning_extra" is not.
const char* framework_of_module(const char* module) noexcept {
  const size_t length = module ? std::strcspn(module, ".") : 0;
  for (const Package& package : kPackages) {
    if (std::strlen(package.name) == length && std::memcmp(package.name, module, length) == 0)
      return package.framework;
  }
  return nullptr;
}

// The last few objects that hold the settings of a framework's loaders.
struct Settings {
  const char* framework;
  char location[sizeof(Location)];
};
constexpr size_t kSettings = 4;
constinit Settings g_settings[kSettings]{};
constinit size_t g_next_settings = 0;

}  // namespace

const char* framework_on_stack() noexcept {
  const ErrorGuard guard;
  const char* nearest_user = nullptr;
  Ref frame = Ref::of_borrowed(g_api.PyEval_GetFrame());
  for (int depth = 0; frame && !frame.is_none() && depth < kMaxFrames; ++depth) {
    const Ref code = attribute(frame.get(), "f_code");
    const Ref file = code ? attribute(code.get(), "co_filename") : Ref();
    const char* path = text(file.get());
    if (path && is_users_frame(frame.get(), path)) break;
    const Ref globals = attribute(frame.get(), "f_globals");
    PyObject* module = globals ? g_api.PyDict_GetItemString(globals.get(), "__name__") : nullptr;
    if (const char* framework = framework_of_module(text(module))) nearest_user = framework;
    frame = attribute(frame.get(), "f_back");
  }
  return nearest_user;
}

void note_settings(const char* framework) noexcept {
  const Location location = users_location();
  Settings& settings = g_settings[g_next_settings];
  g_next_settings = (g_next_settings + 1) % kSettings;
  settings.framework = framework;
  std::memcpy(settings.location, location.c_str(), location.size() + 1);
}

Location settings_of(const char* framework) noexcept {
  Location location;
  for (size_t i = 1; framework && i <= kSettings; ++i) {
    const Settings& settings = g_settings[(g_next_settings + kSettings - i) % kSettings];
    if (settings.framework && std::strcmp(settings.framework, framework) == 0)
      return location.add(settings.location);
  }
  return location;
}

const char* framework_of_class(PyObject* object) noexcept {
  const ErrorGuard guard;
  const Ref type(g_api.PyObject_Type(object));
  const Ref module = attribute(type.get(), "__module__");
  return framework_of_module(text(module.get()));
}

}  // namespace gpuwatch::hooks::python
