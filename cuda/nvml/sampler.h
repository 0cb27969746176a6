// SPDX-License-Identifier: Apache-2.0
// What NVML says of the devices that this process uses, asked by the thread that fetches device records:
// clocks and what holds them down, power, temperature, PCIe link, memory, utilisation, other processes on the
// device. Devices are matched with CUDA's by PCI bus id. NVML is initialised by the first sample that finds a
// device in use, and never shut down: the job may be using it too. A forked child does nothing. Cost: see
// docs/performance.md; samples that take more than 1 ms are taken less often. Errors: the source "nvml" says
// what is missing, and nothing else happens. Thread safety: prepare() once; sample() by one thread at a time,
// which hooks/entry.cpp sees to. errno is kept.
#pragma once

#include <cstdint>

namespace gpuwatch::cuda::nvml {

// On the first sight of CUDA: from now on samples look for a device in use. Nothing is loaded yet.
void prepare() noexcept;

// Loads NVML once the driver is there. On a thread of the job: had one of ours the dynamic linker's lock
// while the job forks, its children would wait for that lock for ever.
void load_library() noexcept;

// Nothing before load_library() has found the library.
void sample(uint64_t now) noexcept;

}  // namespace gpuwatch::cuda::nvml
