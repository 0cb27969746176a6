// SPDX-License-Identifier: Apache-2.0
// The modules to wrap, as the interpreter entry and the finder need them. python.cpp, which includes the
// wrappers of all frameworks, fills this in.
#pragma once

#include "hooks/python/interpreter/api.h"

namespace gpuwatch::hooks::python {

struct WrappedModules {
  bool (*is_wrapped)(const char* name) noexcept;  // whether a module of this name is
  // Right after the module was executed. Wrapping it twice changes nothing.
  void (*wrap)(const char* name, PyObject* module) noexcept;
  void (*wrap_loaded)() noexcept;  // those that were imported before us
  // Says what the source `python` gives: On; Partial, with what this torch lacks; or that none was imported
  // yet.
  void (*put_state)() noexcept;
};

// Static storage; null until the source is armed.
extern constinit const WrappedModules* g_wrapped_modules;

}  // namespace gpuwatch::hooks::python
