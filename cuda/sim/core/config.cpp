// SPDX-License-Identifier: Apache-2.0
#include "config.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

namespace gpuwatch::sim {

namespace {

[[noreturn]] void fail(const std::string& path, int line, const std::string& what) {
  std::fprintf(stderr, "[gpuwatch simulated device] %s:%d: %s\n", path.c_str(), line, what.c_str());
  std::abort();
}

using Setter = std::function<void(Config&, double)>;

Setter duration_us(Ns Config::*field) {
  return [field](Config& c, double us) { c.*field = static_cast<Ns>(us * 1e3); };
}

Setter gigabytes_per_s(double Config::*field) {
  return [field](Config& c, double value) { c.*field = value; };
}

Setter teraflops(double Config::*field) {
  return [field](Config& c, double value) { c.*field = value * 1e3; };
}

Setter kibibytes(size_t Config::*field) {
  return [field](Config& c, double value) { c.*field = static_cast<size_t>(value * 1024); };
}

Setter count(int Config::*field) {
  return [field](Config& c, double value) { c.*field = static_cast<int>(value); };
}

struct Key {
  Setter set;
  double minimum;
};

const std::map<std::string, Key>& keys() {
  static const std::map<std::string, Key> table{
      {"devices", {count(&Config::devices), 0}},
      {"memory_gib",
       {[](Config& c, double gib) { c.memory_bytes = static_cast<size_t>(gib * (1 << 30)); }, 0}},
      {"multiprocessors", {count(&Config::multiprocessors), 1}},
      {"compute_capability",
       {[](Config& c, double value) {
          const int tenths = static_cast<int>(value * 10 + 0.5);
          c.compute_major = tenths / 10;
          c.compute_minor = tenths % 10;
        },
        1}},
      {"device_reads_zero", {count(&Config::device_reads_zero), 0}},
      {"default_kernel_us", {duration_us(&Config::default_kernel_ns), 0}},
      {"h2d_gbs", {gigabytes_per_s(&Config::h2d_bytes_per_ns), 1e-6}},
      {"d2h_gbs", {gigabytes_per_s(&Config::d2h_bytes_per_ns), 1e-6}},
      {"d2d_gbs", {gigabytes_per_s(&Config::d2d_bytes_per_ns), 1e-6}},
      {"pageable_gbs", {gigabytes_per_s(&Config::pageable_bytes_per_ns), 1e-6}},
      {"nccl_gbs", {gigabytes_per_s(&Config::nccl_bytes_per_ns), 1e-6}},
      {"staging_chunk_kib", {kibibytes(&Config::staging_chunk_bytes), 1}},
      {"small_pageable_kib", {kibibytes(&Config::small_pageable_bytes), 0}},
      {"data_max_kib", {kibibytes(&Config::data_max_bytes), 0}},
      {"launch_latency_us", {duration_us(&Config::launch_latency_ns), 0}},
      {"copy_latency_us", {duration_us(&Config::copy_latency_ns), 0}},
      {"nccl_latency_us", {duration_us(&Config::nccl_latency_ns), 0}},
      {"launch_cost_us", {duration_us(&Config::launch_cost_ns), 0}},
      {"malloc_cost_us", {duration_us(&Config::malloc_cost_ns), 0}},
      {"free_cost_us", {duration_us(&Config::free_cost_ns), 0}},
      {"host_alloc_cost_us", {duration_us(&Config::host_alloc_cost_ns), 0}},
      {"fp64_tflops", {teraflops(&Config::fp64_flops_per_ns), 1e-6}},
      {"fp32_tflops", {teraflops(&Config::fp32_flops_per_ns), 1e-6}},
      {"tf32_tflops", {teraflops(&Config::tf32_flops_per_ns), 1e-6}},
      {"fp16_tflops", {teraflops(&Config::fp16_flops_per_ns), 1e-6}},
      {"fp8_tflops", {teraflops(&Config::fp8_flops_per_ns), 1e-6}},
      {"matmul_efficiency", {gigabytes_per_s(&Config::matmul_efficiency), 1e-6}},
      {"matmul_floor_us", {duration_us(&Config::matmul_floor_ns), 0}},
      {"queue_depth", {count(&Config::queue_depth), 1}},
      {"spin_us", {duration_us(&Config::spin_ns), 0}},
      {"cupti_skew_us", {duration_us(&Config::cupti_skew_ns), -1e15}},
      {"cupti_drift_ppm", {gigabytes_per_s(&Config::cupti_drift_ppm), -1e6}},
      {"cupti_step_ms", {[](Config& c, double ms) { c.cupti_step_ns = ms * 1e6; }, -1e15}},
      {"cupti_step_at_ms", {[](Config& c, double ms) { c.cupti_step_at_ns = static_cast<Ns>(ms * 1e6); }, 0}},
      {"cupti_api_version", {count(&Config::cupti_api_version), 18}},
      {"cupti_fail_after", {count(&Config::cupti_fail_after), 0}},
      {"cupti_fail_at_ms", {[](Config& c, double ms) { c.cupti_fail_at_ns = static_cast<Ns>(ms * 1e6); }, 0}},
      {"cupti_fail_code", {count(&Config::cupti_fail_code), 1}},
      {"cupti_names_expire", {count(&Config::cupti_names_expire), 0}},
      {"sm_clock_mhz", {count(&Config::sm_clock_mhz), 0}},
      {"sm_clock_max_mhz", {count(&Config::sm_clock_max_mhz), 0}},
      {"throttle_reasons", {count(&Config::throttle_reasons), 0}},
      {"power_mw", {count(&Config::power_mw), 0}},
      {"power_limit_mw", {count(&Config::power_limit_mw), 0}},
      {"power_limit_default_mw", {count(&Config::power_limit_default_mw), 0}},
      {"temperature_c", {count(&Config::temperature_c), 0}},
      {"pcie_generation", {count(&Config::pcie_generation), 0}},
      {"pcie_generation_max", {count(&Config::pcie_generation_max), 0}},
      {"pcie_width", {count(&Config::pcie_width), 0}},
      {"pcie_width_max", {count(&Config::pcie_width_max), 0}},
      {"utilization_percent", {count(&Config::utilization_percent), 0}},
      {"other_processes", {count(&Config::other_processes), 0}},
      {"other_process_kib", {kibibytes(&Config::other_process_bytes), 0}},
      {"other_process_utilization_percent", {count(&Config::other_process_utilization_percent), 0}},
      {"nvml_init_ms", {count(&Config::nvml_init_ms), 0}},
      {"cupti_worker_period_us", {duration_us(&Config::cupti_worker_period_ns), 100}},
  };
  return table;
}

bool nothing_left(std::istringstream& words) {
  std::string rest;
  return !(words >> rest);
}

void parse_line(Config& c, const std::string& text, const std::string& path, int line) {
  std::istringstream words(text.substr(0, text.find('#')));
  std::string key;
  if (!(words >> key)) return;
  if (key == "kernel") {
    KernelRule rule{};
    if (!(words >> rule.glob >> rule.base_us))
      fail(path, line, "expected: kernel <glob> <us> [<us per block>]");
    if (!(words >> rule.per_block_us)) rule.per_block_us = 0, words.clear();
    if (!nothing_left(words) || rule.base_us < 0 || rule.per_block_us < 0) {
      fail(path, line, "expected: kernel <glob> <us> [<us per block>], none of them negative");
    }
    c.kernels.push_back(rule);
    return;
  }
  if (key == "kernel_bytes") {
    TrafficRule rule{};
    if (!(words >> rule.glob >> rule.bytes_per_thread) || rule.bytes_per_thread < 0)
      fail(path, line, "expected: kernel_bytes <glob> <bytes per thread> [<us>], none of them negative");
    if (!(words >> rule.base_us)) rule.base_us = -1, words.clear();
    if (!nothing_left(words)) fail(path, line, "expected: kernel_bytes <glob> <bytes per thread> [<us>]");
    c.traffic.push_back(rule);
    return;
  }
  if (key == "fill_kernel") {
    FillRule rule{};
    if (!(words >> rule.glob >> rule.argument) || rule.argument < 0 || !nothing_left(words))
      fail(path, line, "expected: fill_kernel <glob> <argument>");
    c.fills.push_back(rule);
    return;
  }
  if (key == "device_name") {
    std::getline(words >> std::ws, c.device_name);
    return;
  }
  const auto found = keys().find(key);
  if (found == keys().end()) fail(path, line, "unknown key \"" + key + "\"");
  double value;
  if (!(words >> value) || !nothing_left(words)) fail(path, line, "\"" + key + "\" takes one number");
  if (value < found->second.minimum) fail(path, line, "\"" + key + "\" is too small");
  found->second.set(c, value);
}

struct Loaded {
  Config config;
  std::string text;
};

constexpr int kMaxIncludes = 8;  // inside each other: a file that includes itself must end

void load_file(const std::string& path, int depth, Loaded& result) {
  std::ifstream file(path);
  if (!file) fail(path, 0, "GWSIM_CONFIG or a file in it names a file that cannot be read");
  if (depth > kMaxIncludes) fail(path, 0, "too many files include each other");
  std::string text;
  for (int line = 1; std::getline(file, text); ++line) {
    std::istringstream words(text);
    std::string key, included;
    if (words >> key && key == "include") {
      if (!(words >> included) || !nothing_left(words)) fail(path, line, "expected: include <file>");
      load_file(std::filesystem::path(path).replace_filename(included), depth + 1, result);
      continue;
    }
    parse_line(result.config, text, path, line);
    result.text += text + "\n";
  }
}

Loaded load() {
  Loaded result;
  if (const char* path = std::getenv("GWSIM_CONFIG"); path && *path) load_file(path, 0, result);
  return result;
}

// Leaked: device threads may outlive static destruction.
const Loaded& loaded() {
  static const Loaded* instance = new Loaded(load());
  return *instance;
}

// At load, not at the first call: a mistake in the file should show before the program does anything.
[[gnu::constructor]] void load_early() {
  loaded();
}

}  // namespace

const Config& config() {
  return loaded().config;
}
const std::string& config_text() {
  return loaded().text;
}

}  // namespace gpuwatch::sim
