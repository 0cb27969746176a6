// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/targets.h"

#include <cstring>

#include "hooks/python/object.h"
#include "hooks/python/wrappers.h"
#include "libinject/base/compiler.h"

namespace gpuwatch::hooks::python {

namespace {

struct Target {
  const char* module;
  bool (*prepare)(PyObject* module) noexcept;  // true if all that matters was found
  const char* state_if_missing;
  bool is_executed;
  bool is_complete;
};

constinit Target g_targets[] = {
    {"torch.utils.data.dataloader", wrap_loader, "on, but this PyTorch's DataLoader is not understood", false,
     false},
    {"torch.utils.data._utils.fetch", wrap_fetchers, "on, but fetches of this PyTorch are not seen", false,
     false},
    {"torch.optim.optimizer", watch_optimizers, "on, but optimizer steps of this PyTorch are not seen", false,
     false},
    {"torch.serialization", wrap_checkpoints, "on, but checkpoints of this PyTorch are not seen", false,
     false},
};

Target* find_target(const char* module_name) noexcept {
  for (Target& target : g_targets) {
    if (std::strcmp(target.module, module_name) == 0) return &target;
  }
  return nullptr;
}

}  // namespace

bool is_target(const char* module_name) noexcept {
  return std::strncmp(module_name, "torch.", 6) == 0 && find_target(module_name) != nullptr;
}

GW_COLD void prepare(const char* module_name, PyObject* module) noexcept {
  Target* target = find_target(module_name);
  if (!target) return;
  target->is_executed = true;
  target->is_complete = target->prepare(module);
}

void prepare_loaded_modules() noexcept {
  for (Target& target : g_targets) {
    if (PyObject* module = loaded_module(target.module)) prepare(target.module, module);
  }
}

const char* state_of_targets() noexcept {
  bool is_any_executed = false;
  for (const Target& target : g_targets) {
    if (target.is_executed && !target.is_complete) return target.state_if_missing;
    is_any_executed |= target.is_executed;
  }
  return is_any_executed ? "on" : "waiting for PyTorch to be imported";
}

}  // namespace gpuwatch::hooks::python
