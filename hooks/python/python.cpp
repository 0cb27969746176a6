// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/python.h"

#include <cstring>

#include "hooks/python/frameworks/framework_loaders.h"
#include "hooks/python/frameworks/profilers.h"
#include "hooks/python/interpreter/interpreter_entry.h"
#include "hooks/python/interpreter/object.h"
#include "hooks/python/pytorch/checkpoint.h"
#include "hooks/python/pytorch/evaluation.h"
#include "hooks/python/pytorch/fetch.h"
#include "hooks/python/pytorch/loader.h"
#include "hooks/python/pytorch/optimizer.h"
#include "hooks/python/pytorch/pin.h"
#include "libinject/base/compiler.h"
#include "libinject/base/text.h"
#include "libinject/record/recorder.h"

namespace gpuwatch::hooks::python {

namespace {

struct TorchModule {
  const char* name;
  Parts (*wrap)(PyObject* module) noexcept;
  bool is_executed;
  Parts missing;
};

constinit TorchModule g_torch_modules[] = {
    {"torch.utils.data.dataloader", wrap_loader, false, 0},
    {"torchdata.stateful_dataloader.stateful_dataloader", wrap_stateful_loader, false, 0},
    {"torch.utils.data._utils.fetch", wrap_fetchers, false, 0},
    {"torch.utils.data._utils.pin_memory", wrap_pinning, false, 0},
    {"torch.optim.optimizer", watch_optimizers, false, 0},
    {"torch.serialization", wrap_checkpoints, false, 0},
    {"torch.nn.modules.module", wrap_module_eval, false, 0},
};

constexpr struct {
  Parts part;
  const char* name;
} kPartNames[] = {
    {kEpochs, "waits for the DataLoader"},
    {kFurtherEpochs, "epochs of persistent workers after the first"},
    {kIndices, "indices sent to workers"},
    {kReceipts, "batches received from workers"},
    {kFetches, "fetches"},
    {kPinning, "pinning"},
    {kSteps, "optimizer steps"},
    {kCheckpoints, "checkpoints"},
    {kStateful, "all of StatefulDataLoader"},
    {kEvaluations, "evaluations without a loader"},
};

TorchModule* find_torch_module(const char* module_name) noexcept {
  for (TorchModule& known : g_torch_modules) {
    if (std::strcmp(known.name, module_name) == 0) return &known;
  }
  return nullptr;
}

bool is_wrapped(const char* module_name) noexcept {
  if (std::strncmp(module_name, "torch", 5) == 0 && find_torch_module(module_name)) return true;
  return is_framework_module(module_name) || is_profiler_module(module_name);
}

GW_COLD void wrap(const char* module_name, PyObject* module) noexcept {
  TorchModule* known = find_torch_module(module_name);
  if (!known) {
    wrap_profiler(module_name, module);
    return wrap_framework(module_name, module);
  }
  known->is_executed = true;
  known->missing = known->wrap(module);
}

void wrap_loaded() noexcept {
  wrap_loaded_frameworks();
  wrap_loaded_profilers();
  for (TorchModule& known : g_torch_modules) {
    if (PyObject* module = loaded_module(known.name)) wrap(known.name, module);
  }
}

void put_state() noexcept {
  using trace::SourceState;
  bool is_any_executed = has_met_framework();
  Parts missing = 0;
  for (const TorchModule& known : g_torch_modules) {
    missing |= known.missing;
    is_any_executed |= known.is_executed;
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

constexpr WrappedModules kModules{is_wrapped, wrap, wrap_loaded, put_state};

}  // namespace

void arm() noexcept {
  watch_for_imports(kModules);
}

void on_recording() noexcept {
  put_source_state();
}

}  // namespace gpuwatch::hooks::python
