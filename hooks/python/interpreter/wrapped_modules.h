// SPDX-License-Identifier: Apache-2.0
// What the interpreter entry and the finder ask of the layers above: which modules are wrapped, and with
// what. Filled in by hooks/python/python.cpp, which knows them all.
#pragma once

#include "hooks/python/interpreter/api.h"
#include "libinject/base/text.h"

namespace gpuwatch::hooks::python {

// "on", or "on, but not seen in this PyTorch: fetches, pinning".
using StateText = base::Text<256>;

struct WrappedModules {
  bool (*is_wrapped)(const char* name) noexcept;  // a module of this name
  // Right after the module was executed. Wrapping it twice changes nothing.
  void (*wrap)(const char* name, PyObject* module) noexcept;
  void (*wrap_loaded)() noexcept;  // those that were imported before us
  StateText (*state)() noexcept;   // of the source
};

// Static storage; null until the source is armed.
extern constinit const WrappedModules* g_wrapped_modules;

}  // namespace gpuwatch::hooks::python
