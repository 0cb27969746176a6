// SPDX-License-Identifier: Apache-2.0
// What the simulated device is like: read once from the text file named by GWSIM_CONFIG.
// Durations are kept in ns, bandwidths in bytes per ns (= GB/s). A line that cannot be understood ends the
// process with one sentence: a typing error in a test instrument must not become a result.
// docs/simulated-device.md lists every key.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "clock.h"

namespace gpuwatch::sim {

// "kernel <glob> <us> [<us per block>]": the first rule whose glob matches the mangled or the demangled name.
struct KernelRule {
  std::string glob;
  double base_us;
  double per_block_us;
};

// "kernel_bytes <glob> <bytes per thread> [<us>]": the kernel moves so much for each of its threads, at
// d2d_gbs, after a fixed part (default_kernel_us). Looked at where no kernel rule matches.
struct TrafficRule {
  std::string glob;
  double bytes_per_thread;
  double base_us;  // negative: default_kernel_us
};

// "fill_kernel <glob> <argument>": the kernel does nothing but fill the memory that this argument (from
// 0) points to.
struct FillRule {
  std::string glob;
  int argument;
};

struct Config {
  std::string device_name = "Simulated GPU";
  int devices = 1;
  size_t memory_bytes = size_t{80} << 30;
  int multiprocessors = 132;
  int compute_major = 9, compute_minor = 0;
  std::vector<KernelRule> kernels;
  Ns default_kernel_ns = 10'000;
  // Kernels whose duration comes from their size: the first rule that matches; none by default.
  std::vector<TrafficRule> traffic;
  std::vector<FillRule> fills;

  double h2d_bytes_per_ns = 50;
  double d2h_bytes_per_ns = 50;
  double d2d_bytes_per_ns = 2000;
  double pageable_bytes_per_ns = 8;
  double nccl_bytes_per_ns = 100;
  size_t staging_chunk_bytes = size_t{512} << 10;
  size_t small_pageable_bytes = size_t{64} << 10;
  size_t data_max_bytes = size_t{64} << 10;
  int device_reads_zero = 0;  // copies from the device deliver zeros, apart from messages (contents.h)

  Ns launch_latency_ns = 3'000;  // from the call to the earliest start on an idle device
  Ns copy_latency_ns = 1'500;    // fixed part of a copy's duration
  Ns nccl_latency_ns = 10'000;   // fixed part of a collective's duration
  Ns launch_cost_ns = 2'000;     // what a launch costs the calling thread, on its core
  Ns malloc_cost_ns = 100'000;
  Ns free_cost_ns = 50'000;
  Ns host_alloc_cost_ns = 200'000;
  // Dense rates of an H100 SXM5 (NVIDIA's data sheet, without sparsity), flop per ns = 10^9 a second.
  double fp64_flops_per_ns = 67e3, fp32_flops_per_ns = 67e3, tf32_flops_per_ns = 494.5e3;
  double fp16_flops_per_ns = 989.5e3, fp8_flops_per_ns = 1979e3;
  double matmul_efficiency = 0.7;  // share of them that a full wave reaches
  Ns matmul_floor_ns = 2'000;      // fixed part of a matrix product's duration
  int queue_depth = 1024;          // work that a stream takes before a launch blocks

  Ns spin_ns = 60'000;  // a blocked call stops sleeping this long before its end
  Ns cupti_skew_ns = 0;
  double cupti_drift_ppm = 0;
  double cupti_step_ns = 0;                // CLOCK_REALTIME was set: by this much,
  Ns cupti_step_at_ns = 0;                 // so long after the library was loaded
  Ns cupti_worker_period_ns = 10'000'000;  // how often full buffers are looked at
  int cupti_api_version = 0;               // of the release that is played; 0: of the headers
  int cupti_fail_after = -1;               // calls that succeed before all fail; -1: none fails
  Ns cupti_fail_at_ns = -1;                // or so long after the library was loaded; -1: never
  int cupti_fail_code = 999;               // what failing calls return
  int cupti_names_expire = 0;              // kernel names are gone when the buffer's callback returns

  // What the NVML stand-in answers.
  int sm_clock_mhz = 1980, sm_clock_max_mhz = 1980;
  int throttle_reasons = 0;  // bits as documented for nvmlDeviceGetCurrentClocksEventReasons
  int power_mw = 350'000, power_limit_mw = 700'000;
  int power_limit_default_mw = 0;  // 0: as power_limit_mw
  int temperature_c = 45;
  int pcie_generation = 5, pcie_generation_max = 5, pcie_width = 16, pcie_width_max = 16;
  int utilization_percent = 50;
  int other_processes = 0;
  size_t other_process_bytes = size_t{1} << 30;  // of each
  int other_process_utilization_percent = 0;     // of each
  int nvml_init_ms = 0;                          // that nvmlInit takes: 24 on an H200
};

// Loads on first use; never changes afterwards.
const Config& config();

// The text of the file as read, for the ground truth's header; empty without a file.
const std::string& config_text();

}  // namespace gpuwatch::sim
