// SPDX-License-Identifier: Apache-2.0
#include "cuda/nvml/api.h"

#include <dlfcn.h>

#include <type_traits>

namespace gpuwatch::cuda::nvml {
namespace {

template <class Function>
void find(void* library, Function** to, const char* name) noexcept {
  if (!*to) *to = reinterpret_cast<Function*>(dlsym(library, name));
}

void find_nvml(void* library, Api* api) noexcept {
  find(library, &api->init, "nvmlInit_v2");
  find(library, &api->handle_by_pci, "nvmlDeviceGetHandleByPciBusId_v2");
  find(library, &api->clock, "nvmlDeviceGetClockInfo");
  find(library, &api->clock_max, "nvmlDeviceGetMaxClockInfo");
  find(library, &api->clock_reasons, "nvmlDeviceGetCurrentClocksEventReasons");
  find(library, &api->clock_reasons,
       "nvmlDeviceGetCurrentClocksThrottleReasons");  // its name before driver 535
  find(library, &api->power, "nvmlDeviceGetPowerUsage");
  find(library, &api->power_limit, "nvmlDeviceGetEnforcedPowerLimit");
  find(library, &api->power_limit_default, "nvmlDeviceGetPowerManagementDefaultLimit");
  find(library, &api->temperature, "nvmlDeviceGetTemperature");
  find(library, &api->pcie_generation, "nvmlDeviceGetCurrPcieLinkGeneration");
  find(library, &api->pcie_generation_max, "nvmlDeviceGetMaxPcieLinkGeneration");
  find(library, &api->pcie_width, "nvmlDeviceGetCurrPcieLinkWidth");
  find(library, &api->pcie_width_max, "nvmlDeviceGetMaxPcieLinkWidth");
  find(library, &api->memory, "nvmlDeviceGetMemoryInfo");
  find(library, &api->utilization, "nvmlDeviceGetUtilizationRates");
  find(library, &api->processes, "nvmlDeviceGetComputeRunningProcesses_v3");
  find(library, &api->processes, "nvmlDeviceGetComputeRunningProcesses_v2");
  find(library, &api->process_utilization, "nvmlDeviceGetProcessUtilization");
}

const char* load_all(Api* api) noexcept {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (!driver) return "no libcuda.so.1";
  find(driver, &api->device_count, "cuDeviceGetCount");
  find(driver, &api->pci_bus_id, "cuDeviceGetPCIBusId");
  find(driver, &api->context_state, "cuDevicePrimaryCtxGetState");
  if (!api->device_count || !api->pci_bus_id || !api->context_state) return "libcuda.so.1 lacks a function";
  void* nvml = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (!nvml) return "libnvidia-ml.so.1 not found";
  find_nvml(nvml, api);
  return api->init && api->handle_by_pci ? nullptr : "libnvidia-ml.so.1 lacks a function";
}

}  // namespace

bool is_driver_loaded() noexcept {
  void* driver = dlopen && dlsym ? dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD) : nullptr;  // weak symbols
  if (dlerror) dlerror();
  return driver != nullptr;
}

void load(Api* api) noexcept {
  *api = {};
  api->missing = load_all(api);
  if (dlerror) dlerror();  // a job must not find our look-ups in its next dlerror()
}

}  // namespace gpuwatch::cuda::nvml
