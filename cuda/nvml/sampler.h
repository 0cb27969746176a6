// SPDX-License-Identifier: Apache-2.0
// What NVML says of the devices that this process uses: clocks and what holds them down, power, temperature,
// PCIe link, memory, utilisation, other processes on the device. Devices are matched with CUDA's by PCI bus
// id. Asked twice a second by a thread that does nothing else: the first answer took 24 ms on an H200, and a
// driver in trouble may never answer. NVML is initialised by the first sample that finds a device in use, and
// never shut down: the job may be using it too. A forked child does nothing. Cost: see docs/performance.md;
// samples that take more than 1 ms are taken less often. Errors: the source "nvml" says what is missing, and
// nothing else happens. Thread safety: prepare() once; start_sampling() by one thread at a time. errno is
// kept.
#pragma once

namespace gpuwatch::cuda::nvml {

// On the first sight of CUDA: from now on samples look for a device in use. Nothing is loaded yet.
void prepare() noexcept;

// Nothing until the driver is there; then loads NVML and starts the thread, once. Loads it on a thread of the
// job: had one of ours the dynamic linker's lock while the job forks, its children would wait for that lock
// for ever.
void start_sampling() noexcept;

}  // namespace gpuwatch::cuda::nvml
