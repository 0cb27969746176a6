// SPDX-License-Identifier: Apache-2.0
// GPUWATCH_* settings, read and copied once in the library's constructor and constant afterwards: getenv
// races with a job's setenv, a title is written over the environment (setproctitle, Ray, vLLM), and a job
// changes its directory. Paths are absolute. A value that cannot be understood is reported in one line when
// recording starts, and the default used. Thread and signal safe after read_config().
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpuwatch::runtime {

enum class Source : uint32_t {
  kCuda = 1u << 0,
  kCupti = 1u << 1,
  kNccl = 1u << 2,
  kNvtx = 1u << 3,
  kIo = 1u << 4,
  kPython = 1u << 5,
  kSystem = 1u << 6,
};

enum class PathStyle { kFull, kBasename, kHash };

struct Config {
  const char* start_directory = ".";
  const char* out = nullptr;     // null: choose
  const char* run_id = nullptr;  // null: derive
  const char* nvtx_forward = nullptr;
  const char* apply = nullptr;           // hooks/core/applied_settings.h reads it
  const char* interrupt_file = nullptr;  // null: none
  uint64_t max_bytes = 512ull << 20;
  uint32_t sources = 0x7f;
  bool chose_sources = false;  // GPUWATCH_TRACE was given and understood
  uint32_t file_mode = 0600;
  PathStyle paths = PathStyle::kFull;
  bool disabled = false;
  bool quiet = false;
  struct Complaint {
    const char* name;
    const char* value;  // that is not valid; null: there is no such setting
  };
  Complaint complaints[8] = {};  // up to the first without a name
  bool is_on(Source source) const noexcept { return sources & static_cast<uint32_t>(source); }
  bool asks_for(Source source) const noexcept { return chose_sources && is_on(source); }
};

void read_config() noexcept;
const Config& config() noexcept;

}  // namespace gpuwatch::runtime
