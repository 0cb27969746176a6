// SPDX-License-Identifier: Apache-2.0
// The libnvidia-ml stand-in: answers what the configuration says, as NVML's reference manual documents
// the functions. NVML numbers devices in the order of the bus and does not know CUDA_VISIBLE_DEVICES;
// here the order is CUDA's turned around, so that whoever takes the number of one for that of the other
// is found out. Memory in use is what the program allocated and that of the other processes in the
// configuration.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "core/config.h"
#include "core/memory.h"

#define GWSIM_EXPORT extern "C" __attribute__((visibility("default")))

using namespace gpuwatch::sim;

extern "C" int gwsim_unimplemented(const char* name, int code);

namespace {

using Return = int;
constexpr Return kSuccess = 0, kUninitialized = 1, kInvalidArgument = 2, kNotSupported = 3, kNotFound = 6,
                 kInsufficientSize = 7;
constexpr int kClockSm = 1;
constexpr unsigned kFirstOtherPid = 0x7fff0000u;

struct MemoryInfo {
  unsigned long long total, free, used;
};
struct Utilization {
  unsigned gpu, memory;
};
struct ProcessInfo {
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance, compute_instance;
};

bool g_is_initialised = false;

// A handle is CUDA's number of the device plus one.
using Device = const void*;
int cuda_device(Device handle) {
  const auto number = static_cast<int>(reinterpret_cast<uintptr_t>(handle)) - 1;
  return number >= 0 && number < config().devices ? number : -1;
}
Device handle_of(int device) {
  return reinterpret_cast<Device>(static_cast<uintptr_t>(device) + 1);
}

size_t own_bytes(Device device) {
  return Memory::instance().used_bytes(static_cast<uint32_t>(cuda_device(device)));
}

Return answer(Device device, unsigned* to, int value) {
  if (!g_is_initialised) return kUninitialized;
  if (cuda_device(device) < 0 || !to) return kInvalidArgument;
  *to = static_cast<unsigned>(value);
  return kSuccess;
}

}  // namespace

GWSIM_EXPORT Return nvmlInit_v2() {
  usleep(static_cast<useconds_t>(config().nvml_init_ms) * 1000);
  g_is_initialised = true;
  return kSuccess;
}
GWSIM_EXPORT Return nvmlShutdown() {
  g_is_initialised = false;
  return kSuccess;
}
GWSIM_EXPORT Return nvmlDeviceGetCount_v2(unsigned* count) {
  if (!g_is_initialised) return kUninitialized;
  *count = static_cast<unsigned>(config().devices);
  return kSuccess;
}
GWSIM_EXPORT Return nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  if (!g_is_initialised) return kUninitialized;
  if (index >= static_cast<unsigned>(config().devices)) return kInvalidArgument;
  *device = handle_of(config().devices - 1 - static_cast<int>(index));
  return kSuccess;
}
GWSIM_EXPORT Return nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, Device* device) {
  if (!g_is_initialised) return kUninitialized;
  unsigned domain = 0, bus = 0, slot = 0;
  if (!bus_id || std::sscanf(bus_id, "%x:%x:%x.", &domain, &bus, &slot) != 3) return kInvalidArgument;
  if (domain || bus || slot >= static_cast<unsigned>(config().devices)) return kNotFound;
  *device = handle_of(static_cast<int>(slot));
  return kSuccess;
}

GWSIM_EXPORT Return nvmlDeviceGetClockInfo(Device device, int type, unsigned* mhz) {
  return type == kClockSm ? answer(device, mhz, config().sm_clock_mhz) : kNotSupported;
}
GWSIM_EXPORT Return nvmlDeviceGetMaxClockInfo(Device device, int type, unsigned* mhz) {
  return type == kClockSm ? answer(device, mhz, config().sm_clock_max_mhz) : kNotSupported;
}
GWSIM_EXPORT Return nvmlDeviceGetCurrentClocksEventReasons(Device device, unsigned long long* reasons) {
  unsigned value = 0;
  const Return result = answer(device, &value, config().throttle_reasons);
  if (result == kSuccess) *reasons = value;
  return result;
}
GWSIM_EXPORT Return nvmlDeviceGetPowerUsage(Device device, unsigned* mw) {
  return answer(device, mw, config().power_mw + cuda_device(device));
}
GWSIM_EXPORT Return nvmlDeviceGetEnforcedPowerLimit(Device device, unsigned* mw) {
  return answer(device, mw, config().power_limit_mw);
}
GWSIM_EXPORT Return nvmlDeviceGetPowerManagementDefaultLimit(Device device, unsigned* mw) {
  const int is_given = config().power_limit_default_mw;
  return answer(device, mw, is_given ? is_given : config().power_limit_mw);
}
GWSIM_EXPORT Return nvmlDeviceGetTemperature(Device device, int sensor, unsigned* celsius) {
  return sensor == 0 ? answer(device, celsius, config().temperature_c) : kInvalidArgument;
}
GWSIM_EXPORT Return nvmlDeviceGetCurrPcieLinkGeneration(Device device, unsigned* generation) {
  return answer(device, generation, config().pcie_generation);
}
GWSIM_EXPORT Return nvmlDeviceGetMaxPcieLinkGeneration(Device device, unsigned* generation) {
  return answer(device, generation, config().pcie_generation_max);
}
GWSIM_EXPORT Return nvmlDeviceGetCurrPcieLinkWidth(Device device, unsigned* width) {
  return answer(device, width, config().pcie_width);
}
GWSIM_EXPORT Return nvmlDeviceGetMaxPcieLinkWidth(Device device, unsigned* width) {
  return answer(device, width, config().pcie_width_max);
}
GWSIM_EXPORT Return nvmlDeviceGetMemoryInfo(Device device, MemoryInfo* memory) {
  unsigned ignored;
  const Return result = answer(device, &ignored, 0);
  if (result != kSuccess) return result;
  memory->total = config().memory_bytes;
  memory->used = own_bytes(device) +
                 static_cast<unsigned long long>(config().other_processes) * config().other_process_bytes;
  memory->free = memory->total - memory->used;
  return kSuccess;
}
GWSIM_EXPORT Return nvmlDeviceGetUtilizationRates(Device device, Utilization* rates) {
  rates->memory = 0;
  const Return result = answer(device, &rates->gpu, config().utilization_percent);
  if (result == kSuccess && !own_bytes(device))
    rates->gpu = static_cast<unsigned>(config().other_processes * config().other_process_utilization_percent);
  return result;
}

// The caller first, where it uses the device, then pids that no process here has.
GWSIM_EXPORT Return nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned* count, ProcessInfo* to) {
  if (!g_is_initialised) return kUninitialized;
  if (cuda_device(device) < 0 || !count) return kInvalidArgument;
  const unsigned room = *count;
  const unsigned own = own_bytes(device) ? 1 : 0;
  *count = own + static_cast<unsigned>(config().other_processes);
  if (room < *count) return kInsufficientSize;
  if (own) to[0] = {static_cast<unsigned>(getpid()), own_bytes(device), 0xffffffff, 0xffffffff};
  for (unsigned i = own; i < *count; ++i)
    to[i] = {kFirstOtherPid + i, config().other_process_bytes, 0xffffffff, 0xffffffff};
  return kSuccess;
}

struct UtilizationSample {
  unsigned pid;
  unsigned long long microseconds;
  unsigned sm, memory, encoder, decoder;  // per cent
};
// One sample a process, as of now.
GWSIM_EXPORT Return nvmlDeviceGetProcessUtilization(Device device, UtilizationSample* to, unsigned* count,
                                                    unsigned long long seen_until) {
  if (!g_is_initialised) return kUninitialized;
  if (cuda_device(device) < 0 || !count) return kInvalidArgument;
  const unsigned room = *count;
  const unsigned own = own_bytes(device) ? 1 : 0;
  *count = own + static_cast<unsigned>(config().other_processes);
  if (!to || room < *count) return kInsufficientSize;
  if (own)
    to[0] = {static_cast<unsigned>(getpid()),
             seen_until + 1,
             static_cast<unsigned>(config().utilization_percent),
             0,
             0,
             0};
  for (unsigned i = own; i < *count; ++i)
    to[i] = {kFirstOtherPid + i,
             seen_until + 1,
             static_cast<unsigned>(config().other_process_utilization_percent),
             0,
             0,
             0};
  return *count ? kSuccess : kNotFound;
}

// The first form of the record, which PyTorch still asks for when it reports that memory ran out.
struct FirstProcessInfo {
  unsigned pid;
  unsigned long long used_bytes;
};
GWSIM_EXPORT Return nvmlDeviceGetComputeRunningProcesses(Device device, unsigned* count,
                                                         FirstProcessInfo* to) {
  if (!count) return kInvalidArgument;
  std::vector<ProcessInfo> found(*count);
  const Return result = nvmlDeviceGetComputeRunningProcesses_v3(device, count, found.data());
  if (result != kSuccess) return result;
  for (unsigned i = 0; i < *count; ++i) to[i] = {found[i].pid, found[i].used_memory};
  return kSuccess;
}

// Who is told that something is not supported asks for these words, and follows the pointer.
GWSIM_EXPORT const char* nvmlErrorString(Return result) {
  switch (result) {
    case kSuccess:
      return "The operation was successful";
    case kInvalidArgument:
      return "A supplied argument is invalid";
    case kNotSupported:
      return "The requested operation is not available on target device";
    case kNotFound:
      return "A query to find an object was unsuccessful";
    default:
      return "An internal driver error occurred";
  }
}

// What programs are likely to try next.
#define GWSIM_MISSING(name)                           \
  GWSIM_EXPORT Return name() {                        \
    return gwsim_unimplemented(#name, kNotSupported); \
  }
GWSIM_MISSING(nvmlInitWithFlags)
GWSIM_MISSING(nvmlSystemGetDriverVersion)
GWSIM_MISSING(nvmlSystemGetNVMLVersion)
GWSIM_MISSING(nvmlSystemGetCudaDriverVersion_v2)
GWSIM_MISSING(nvmlDeviceGetName)
GWSIM_MISSING(nvmlDeviceGetUUID)
GWSIM_MISSING(nvmlDeviceGetHandleByUUID)
GWSIM_MISSING(nvmlDeviceGetPciInfo_v3)
GWSIM_MISSING(nvmlDeviceGetMemoryInfo_v2)
GWSIM_MISSING(nvmlDeviceGetTemperatureV)
GWSIM_MISSING(nvmlDeviceGetCurrentClocksThrottleReasons)
GWSIM_MISSING(nvmlDeviceGetPcieThroughput)
GWSIM_MISSING(nvmlDeviceGetGraphicsRunningProcesses_v3)
GWSIM_MISSING(nvmlDeviceGetTotalEnergyConsumption)
GWSIM_MISSING(nvmlDeviceGetNumaNodeId)
GWSIM_MISSING(nvmlDeviceGetMigMode)
GWSIM_MISSING(nvmlDeviceGetFieldValues)
GWSIM_MISSING(nvmlDeviceGetNvLinkState)
GWSIM_MISSING(nvmlDeviceGetNvLinkRemoteDeviceType)
GWSIM_MISSING(nvmlDeviceGetNvLinkRemotePciInfo_v2)
GWSIM_MISSING(nvmlDeviceGetGpuFabricInfoV)
