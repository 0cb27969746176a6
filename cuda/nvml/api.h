// SPDX-License-Identifier: Apache-2.0
// The part of NVML's public interface that is used here, written from its reference manual (the
// header comes with the toolkit's management package, which few machines have), and the driver
// functions that tell which device is meant. Nothing links libnvidia-ml. Thread safety: load() once,
// by one thread; constant afterwards.
#pragma once

#include <cstdint>

namespace gpuwatch::cuda::nvml {

using Return = int;
inline constexpr Return kSuccess = 0;
inline constexpr Return kNotFound = 6;
inline constexpr Return kInsufficientSize = 7;
inline constexpr int kClockSm = 1;
inline constexpr int kTemperatureGpu = 0;

struct Device_st;
using Device = Device_st*;

struct Memory {
  unsigned long long total, free, used;  // bytes
};
struct Utilization {
  unsigned gpu, memory;  // per cent of the last sample period
};
struct ProcessInfo {  // of the _v2 and _v3 functions
  unsigned pid;
  unsigned long long used_memory;  // bytes; all ones where the driver does not know
  unsigned gpu_instance, compute_instance;
};

struct UtilizationSample {  // of a process that used the device since the time that was asked about
  unsigned pid;
  unsigned long long microseconds;
  unsigned sm, memory, encoder, decoder;  // per cent
};

struct Api {
  // NVML. Those marked * may be null.
  Return (*init)();
  Return (*handle_by_pci)(const char* bus_id, Device*);
  Return (*clock)(Device, int type, unsigned* mhz);            // *
  Return (*clock_max)(Device, int type, unsigned* mhz);        // *
  Return (*clock_reasons)(Device, unsigned long long* bits);   // *
  Return (*power)(Device, unsigned* mw);                       // *
  Return (*power_limit)(Device, unsigned* mw);                 // *
  Return (*power_limit_default)(Device, unsigned* mw);         // *
  Return (*temperature)(Device, int sensor, unsigned* c);      // *
  Return (*pcie_generation)(Device, unsigned*);                // *
  Return (*pcie_generation_max)(Device, unsigned*);            // *
  Return (*pcie_width)(Device, unsigned*);                     // *
  Return (*pcie_width_max)(Device, unsigned*);                 // *
  Return (*memory)(Device, Memory*);                           // *
  Return (*utilization)(Device, Utilization*);                 // *
  Return (*processes)(Device, unsigned* count, ProcessInfo*);  // *
  Return (*process_utilization)(Device, UtilizationSample*, unsigned* count,
                                unsigned long long seen_until_microseconds);  // *
  // CUDA's driver: NVML numbers devices by itself and knows nothing of CUDA_VISIBLE_DEVICES.
  int (*device_count)(int*);
  int (*pci_bus_id)(char*, int size, int device);
  int (*context_state)(int device, unsigned* flags, int* is_active);

  const char* missing = nullptr;  // what was not found; null when all that is needed is there
};

// Whether the job has the driver's library: which of several copies it takes is not ours to decide.
bool is_driver_loaded() noexcept;

// Loads NVML as the dynamic linker finds it, and looks the functions up by their versioned names. Only where
// the driver is loaded.
void load(Api* api) noexcept;

}  // namespace gpuwatch::cuda::nvml
