// SPDX-License-Identifier: Apache-2.0
#include "libinject/runtime/config.h"

#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "libinject/base/syscall.h"

extern "C" char** environ;

namespace gpuwatch::runtime {
namespace {

constinit Config g_config;

constexpr size_t kMaxPath = 4096;
char g_texts[6 * kMaxPath];  // what the settings point to
constinit size_t g_texts_used = 0;

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

// A copy of `directory` (may be empty), `between` and `text`; null where there is no space for it.
const char* joined(const char* directory, const char* between, const char* text) noexcept {
  char* const to = g_texts + g_texts_used;
  size_t size = 0;
  for (const char* part : {directory, between, text}) {
    const size_t length = std::strlen(part);
    if (length >= sizeof g_texts - g_texts_used - size) return nullptr;
    std::memcpy(to + size, part, length);
    size += length;
  }
  to[size] = 0;
  g_texts_used += size + 1;
  return to;
}

const char* copied(const char* text) noexcept {
  return joined("", "", text);
}

// True with *to null for an empty text, which is as good as none.
bool keep(const char* text, const char** to) noexcept {
  *to = *text ? copied(text) : nullptr;
  return *to || !*text;
}

bool keep_path(const char* path, const char** to) noexcept {
  if (!*path || *path == '/') return keep(path, to);
  *to = joined(g_config.start_directory, "/", path);
  return *to != nullptr;
}

// dlopen looks a name without a slash up in the library path.
bool keep_library(const char* name, const char** to) noexcept {
  return std::strchr(name, '/') ? keep_path(name, to) : keep(name, to);
}

void note_start_directory() noexcept {
  char* const to = g_texts + g_texts_used;
  const long bytes =
      base::raw_syscall(SYS_getcwd, base::address(to), static_cast<long>(sizeof g_texts - g_texts_used));
  if (bytes <= 0 || *to != '/') return;  // it is out of reach, or was removed
  g_config.start_directory = to;
  g_texts_used += static_cast<size_t>(bytes);
}

void complain(const char* name, const char* value) noexcept {
  for (Config::Complaint& complaint : g_config.complaints) {
    if (complaint.name) continue;
    complaint = {name, value};
    return;
  }
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
  if (is("GPUWATCH_OUT")) return keep_path(value, &g_config.out);
  if (is("GPUWATCH_RUN_ID")) return keep(value, &g_config.run_id);
  if (is("GPUWATCH_NVTX_FORWARD")) return keep_library(value, &g_config.nvtx_forward);
  if (is("GPUWATCH_APPLY")) return keep(value, &g_config.apply);
  if (is("GPUWATCH_INTERRUPT")) return keep_path(value, &g_config.interrupt_file);
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
  note_start_directory();
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
  // Last: they must not take the space of a setting that is understood.
  for (auto& [name, value] : g_config.complaints) {
    if (name) name = copied(name);
    if (value) value = copied(value);
  }
}

}  // namespace gpuwatch::runtime
