// SPDX-License-Identifier: Apache-2.0
// A trace that torch.profiler exported (Kineto's Chrome trace: JSON, plain or gzip), read into the events
// that say what devices and host threads did. Nothing in the file is trusted: its size is bounded before it
// is held, its nesting costs no stack, and a value of the wrong type counts as absent.
//
// Times are in ns, of whatever epoch the file uses: an event's own time stamp plus KinetoTrace::base_ns is
// CLOCK_REALTIME. Kineto writes microseconds: whole ones up to 2023, then with three decimals, and since 2024
// relative to "baseTimeNanoseconds" (libkineto/src/output_json.cpp).
//
// Throws UserError when the file as a whole cannot be used. Not thread safe; no state is kept.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gpuwatch::io {

enum class KinetoCategory : uint8_t {
  kKernel,
  kMemcpy,
  kMemset,
  kDeviceSync,  // CUPTI's view of a synchronisation
  kCudaCall,    // of the runtime or the driver, on a host thread
  kAnnotation,  // record_function and the profiler's own: ProfilerStep#3, Optimizer.step#SGD.step
  kOperator,    // of PyTorch, of kLongOperatorNs or more
  kOther,
};

// Shorter ones are most of a trace, and no gap between two CUDA calls that they fill is ever the script's own
// work.
inline constexpr int64_t kLongOperatorNs = 1'000'000;

struct KinetoEvent {
  int64_t begin_ns = 0;
  int64_t length_ns = 0;
  int64_t thread = 0;  // of the host; a stream for what ran on a device
  uint64_t bytes = 0;
  uint32_t name = 0;  // index into KinetoTrace::names
  uint32_t correlation = 0;
  uint32_t device = 0, context = 0, stream = 0;
  std::array<uint32_t, 3> grid{}, block{};
  KinetoCategory category = KinetoCategory::kOther;
};

struct KinetoDevice {
  uint32_t id = 0;
  std::string name, architecture;  // architecture: "gfx942" where the file has it
  int compute_major = 0, compute_minor = 0, multiprocessors = 0;
  uint64_t memory_bytes = 0;
  bool is_amd() const;
};

struct KinetoTrace {
  uint64_t file_bytes = 0, json_bytes = 0;
  uint64_t events_read = 0;  // all that the file holds, also those that say nothing here
  uint64_t events_without_time = 0;
  int64_t base_ns = 0;
  int64_t resolution_ns = 1;  // of its time stamps
  int rank = -1, world_size = -1;
  uint32_t pid = 0;
  int runtime_version = 0, driver_version = 0;  // CUDA's, as in 12040
  std::string host, nccl_version, process_name;
  std::vector<KinetoDevice> devices;
  std::vector<std::string> names;
  std::vector<KinetoEvent> events;  // in the order of the file, which is none
  std::unordered_map<int64_t, std::string> thread_names;
  std::vector<std::pair<int64_t, int64_t>> gaps;  // of several files' events: between one file and the next
};

// By its name: .json or .json.gz.
bool is_kineto_path(const std::string& path);

KinetoTrace read_kineto(const std::string& path);

}  // namespace gpuwatch::io
