// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/targets.h"

#include <cstring>

#include "hooks/python/framework_loaders.h"
#include "hooks/python/object.h"
#include "hooks/python/profilers.h"
#include "hooks/python/wrappers.h"
#include "libinject/base/compiler.h"
#include "libinject/base/text.h"
#include "libinject/record/recorder.h"

namespace gpuwatch::hooks::python {

namespace {

struct Target {
  const char* module;
  Parts (*prepare)(PyObject* module) noexcept;
  bool is_executed;
  Parts missing;
};

constinit Target g_targets[] = {
    {"torch.utils.data.dataloader", wrap_loader, false, 0},
    {"torchdata.stateful_dataloader.stateful_dataloader", wrap_stateful_loader, false, 0},
    {"torch.utils.data._utils.fetch", wrap_fetchers, false, 0},
    {"torch.utils.data._utils.pin_memory", wrap_pinning, false, 0},
    {"torch.optim.optimizer", watch_optimizers, false, 0},
    {"torch.serialization", wrap_checkpoints, false, 0},
};

constexpr struct {
  Parts part;
  const char* name;
} kPartNames[] = {
    {kPasses, "waits for the DataLoader"},
    {kFurtherPasses, "further passes of persistent workers"},
    {kIndices, "indices sent to workers"},
    {kReceipts, "batches received from workers"},
    {kFetches, "fetches"},
    {kPinning, "pinning"},
    {kSteps, "optimizer steps"},
    {kCheckpoints, "checkpoints"},
    {kStateful, "all of StatefulDataLoader"},
};

Target* find_target(const char* module_name) noexcept {
  for (Target& target : g_targets) {
    if (std::strcmp(target.module, module_name) == 0) return &target;
  }
  return nullptr;
}

}  // namespace

bool is_target(const char* module_name) noexcept {
  if (std::strncmp(module_name, "torch", 5) == 0 && find_target(module_name)) return true;
  return is_framework_module(module_name) || is_profiler_module(module_name);
}

GW_COLD void prepare(const char* module_name, PyObject* module) noexcept {
  Target* target = find_target(module_name);
  if (!target) {
    prepare_profiler(module_name, module);
    return prepare_framework(module_name, module);
  }
  target->is_executed = true;
  target->missing = target->prepare(module);
}

void prepare_loaded_modules() noexcept {
  prepare_loaded_frameworks();
  prepare_loaded_profilers();
  for (Target& target : g_targets) {
    if (PyObject* module = loaded_module(target.module)) prepare(target.module, module);
  }
}

void put_state_of_targets() noexcept {
  using trace::SourceState;
  bool is_any_executed = has_met_framework();
  Parts missing = 0;
  for (const Target& target : g_targets) {
    missing |= target.missing;
    is_any_executed |= target.is_executed;
  }
  if (!is_any_executed) return record::put_source("python", {SourceState::Absent, "no PyTorch imported yet"});
  if (!missing) return record::put_source("python", {SourceState::On});
  base::Text<256> text;
  const char* separator = "on, but this PyTorch version does not show: ";
  for (const auto& [part, name] : kPartNames) {
    if (!(missing & part)) continue;
    text.add(separator).add(name);
    separator = ", ";
  }
  record::put_source("python", {SourceState::Partial, text.c_str()});
}

}  // namespace gpuwatch::hooks::python
