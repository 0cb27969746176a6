// SPDX-License-Identifier: Apache-2.0
#include "libinject/runtime/config.h"

#include <cstdlib>
#include <cstring>

extern "C" char** environ;

namespace gpuwatch::runtime {
namespace {

constinit Config g_config;

constexpr const char* kNames[] = {
#define GW_SETTING(name, default_text, what) #name,
#include "libinject/runtime/config.def"
#undef GW_SETTING
};

constexpr struct {
  const char* name;
  Source source;
} kSources[] = {{"cuda", Source::kCuda},    {"cupti", Source::kCupti}, {"nccl", Source::kNccl},
                {"nvtx", Source::kNvtx},    {"io", Source::kIo},       {"python", Source::kPython},
                {"system", Source::kSystem}};

void complain(const char* name, const char* value) noexcept {
  if (g_config.complaint_name) return;
  g_config.complaint_name = name;
  g_config.complaint_value = value;
}

// "512MiB", "2G", "1048576"; 0 when not understood. Units are powers of 1024 whatever their spelling.
uint64_t parse_bytes(const char* text) noexcept {
  uint64_t value = 0;
  const char* p = text;
  for (; *p >= '0' && *p <= '9'; ++p) {
    if (value > (1ull << 50)) return 0;
    value = value * 10 + static_cast<uint64_t>(*p - '0');
  }
  if (p == text) return 0;
  int shift = 0;
  switch (*p) {
    case 0:
      break;
    case 'k':
    case 'K':
      shift = 10;
      break;
    case 'm':
    case 'M':
      shift = 20;
      break;
    case 'g':
    case 'G':
      shift = 30;
      break;
    case 'B':
      shift = 0;
      break;
    default:
      return 0;
  }
  if (shift && std::strcmp(p + 1, "") && std::strcmp(p + 1, "B") && std::strcmp(p + 1, "iB")) return 0;
  return value << shift;
}

bool parse_sources(const char* text, uint32_t* out) noexcept {
  uint32_t mask = 0;
  while (*text) {
    const size_t length = std::strcspn(text, ",");
    bool known = length == 0;
    for (const auto& source : kSources) {
      if (std::strlen(source.name) == length && !std::strncmp(source.name, text, length)) {
        mask |= static_cast<uint32_t>(source.source);
        known = true;
      }
    }
    if (!known) return false;
    text += length;
    if (*text) ++text;
  }
  *out = mask;
  return true;
}

bool is_off(const char* value) noexcept {
  return !std::strcmp(value, "0") || !std::strcmp(value, "off") || !std::strcmp(value, "false") || !*value;
}

bool apply(const char* name, const char* value) noexcept {
  const auto is = [name](const char* other) { return !std::strcmp(name, other); };
  if (is("GPUWATCH_OUT")) g_config.out = *value ? value : nullptr;
  if (is("GPUWATCH_RUN_ID")) g_config.run_id = *value ? value : nullptr;
  if (is("GPUWATCH_NVTX_FORWARD")) g_config.nvtx_forward = *value ? value : nullptr;
  if (is("GPUWATCH_APPLY")) g_config.apply = *value ? value : nullptr;
  if (is("GPUWATCH_INTERRUPT")) g_config.interrupt_file = *value ? value : nullptr;
  if (is("GPUWATCH_DISABLE")) g_config.disabled = !is_off(value);
  if (is("GPUWATCH_LOG")) g_config.quiet = is_off(value);
  if (is("GPUWATCH_TRACE")) return g_config.chose_sources = parse_sources(value, &g_config.sources);
  if (is("GPUWATCH_MAX_SIZE")) {
    const uint64_t bytes = parse_bytes(value);
    if (bytes < (1u << 20)) return false;
    g_config.max_bytes = bytes;
  }
  if (is("GPUWATCH_MODE")) {
    char* end;
    const unsigned long mode = std::strtoul(value, &end, 8);
    if (*end || end == value || mode > 0777) return false;
    g_config.file_mode = static_cast<uint32_t>(mode);
  }
  if (is("GPUWATCH_PATHS")) {
    if (!std::strcmp(value, "full"))
      g_config.paths = PathStyle::kFull;
    else if (!std::strcmp(value, "basename"))
      g_config.paths = PathStyle::kBasename;
    else if (!std::strcmp(value, "hash"))
      g_config.paths = PathStyle::kHash;
    else
      return false;
  }
  return true;
}

}  // namespace

const Config& config() noexcept {
  return g_config;
}

void read_config() noexcept {
  if (!environ) return;
  for (char** entry = environ; *entry; ++entry) {
    if (std::strncmp(*entry, "GPUWATCH_", 9)) continue;
    const char* equals = std::strchr(*entry, '=');
    if (!equals) continue;
    const size_t length = static_cast<size_t>(equals - *entry);
    const char* known = nullptr;
    for (const char* name : kNames) {
      if (std::strlen(name) == length && !std::strncmp(name, *entry, length)) known = name;
    }
    if (!known)
      complain(*entry, nullptr);
    else if (!apply(known, equals + 1))
      complain(known, equals + 1);
  }
}

}  // namespace gpuwatch::runtime
