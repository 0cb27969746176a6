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

}  // namespace

const char* framework_on_stack() noexcept {
  const ErrorGuard guard;
  const char* nearest_user = nullptr;
  Ref frame = Ref::of_borrowed(g_api.PyEval_GetFrame());
  for (int depth = 0; frame && !frame.is_none() && depth < kMaxFrames; ++depth) {
    const Ref code = attribute(frame.get(), "f_code");
    const Ref file = code ? attribute(code.get(), "co_filename") : Ref();
    const char* path = text(file.get());
    if (path && is_users_file(path)) break;
    const Ref globals = attribute(frame.get(), "f_globals");
    PyObject* module = globals ? g_api.PyDict_GetItemString(globals.get(), "__name__") : nullptr;
    if (const char* framework = framework_of_module(text(module))) nearest_user = framework;
    frame = attribute(frame.get(), "f_back");
  }
  return nearest_user;
}

const char* framework_of_class(PyObject* object) noexcept {
  const ErrorGuard guard;
  const Ref type(g_api.PyObject_Type(object));
  const Ref module = attribute(type.get(), "__module__");
  return framework_of_module(text(module.get()));
}

}  // namespace gpuwatch::hooks::python
