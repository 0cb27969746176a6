// SPDX-License-Identifier: Apache-2.0
#include "hooks/core/applied_settings.h"

#include <malloc.h>

#include <cstdlib>
#include <cstring>

#include "libinject/base/log.h"
#include "libinject/base/text.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/config.h"

namespace gpuwatch::hooks::applied {
namespace {

enum class Kind { Loader, Worker, Process, Environment };

struct Row {
  const char* name;
  Kind kind;
};
constexpr Row kRows[] = {
#define GW_APPLICABLE(name, kind, values, effect, what) {#name, Kind::kind},
#include "libinject/trace/applicable.def"
#undef GW_APPLICABLE
};

constexpr size_t kMostRequests = 32;
constinit Request g_requests[kMostRequests];
constinit size_t g_count = 0;

// What was done, in the order in which it was done. More than these, say of a loader on a new line in each
// cell of a notebook, add nothing to the report.
constexpr size_t kMostNotes = 32;
struct Notes {
  const char* fact;  // "applied.3" is a fact's name
  char texts[kMostNotes][512];
  size_t count, written;
};
constinit Notes g_applied{"applied.", {}, 0, 0};
constinit Notes g_refused{"not_applied.", {}, 0, 0};
constinit bool g_is_understood = true;

bool copy_part(char* to, size_t capacity, const char* from, size_t length) noexcept {
  if (length >= capacity) return false;
  std::memcpy(to, from, length);
  to[length] = 0;
  return true;
}

Setting find_setting(const char* name, size_t length) noexcept {
  for (size_t i = 0; i < sizeof kRows / sizeof kRows[0]; ++i)
    if (std::strlen(kRows[i].name) == length && std::memcmp(kRows[i].name, name, length) == 0)
      return static_cast<Setting>(i);
  return Setting::kCount;
}

// From `text` to the comma before the next "name=", or to the end.
size_t length_of_item(const char* text) noexcept {
  size_t length = std::strcspn(text, ",");
  while (text[length] == ',') {
    const size_t further = std::strcspn(text + length + 1, ",");
    const char* next = text + length + 1;
    if (std::memchr(next, '=', further)) break;
    length += 1 + further;
  }
  return length;
}

bool add_request(const char* item, size_t length) noexcept {
  const void* equals = std::memchr(item, '=', length);
  if (!equals || g_count == kMostRequests) return false;
  const size_t name_length = static_cast<size_t>(static_cast<const char*>(equals) - item);
  Request& request = g_requests[g_count];
  request.setting = find_setting(item, name_length);
  if (request.setting == Setting::kCount) return false;
  const char* value = item + name_length + 1;
  size_t value_length = length - name_length - 1;
  if (const void* at = std::memchr(value, '@', value_length)) {
    const size_t before = static_cast<size_t>(static_cast<const char*>(at) - value);
    if (!copy_part(request.place, sizeof request.place, value + before + 1, value_length - before - 1))
      return false;
    value_length = before;
  }
  if (value_length == 0 || !copy_part(request.value, sizeof request.value, value, value_length)) return false;
  ++g_count;
  return true;
}

bool parse(const char* text) noexcept {
  while (*text) {
    const size_t length = length_of_item(text);
    if (!add_request(text, length)) return false;
    text += length;
    if (*text) ++text;
  }
  return true;
}

// "train.py:88" is the end of "/home/me/train.py:88".
bool is_end_of(const char* part, const char* place) noexcept {
  const size_t length = std::strlen(part), whole = std::strlen(place);
  if (length > whole || std::memcmp(part, place + whole - length, length) != 0) return false;
  return length == whole || place[whole - length - 1] == '/' || part[0] == '/';
}

void write(Notes& notes) noexcept {
  if (!record::is_recording()) return;
  for (; notes.written < notes.count; ++notes.written) {
    base::Text<32> key;
    key.add(notes.fact).add(static_cast<uint64_t>(notes.written + 1));
    record::put_fact(key.c_str(), notes.texts[notes.written]);
  }
}

void note(Notes& notes, const char* what) noexcept {
  for (size_t i = 0; i < notes.count; ++i)
    if (std::strcmp(notes.texts[i], what) == 0) return;
  if (notes.count == kMostNotes) return;
  base::Text<sizeof notes.texts[0]> cut;
  cut.add(what);
  std::memcpy(notes.texts[notes.count++], cut.c_str(), cut.size() + 1);
  write(notes);
}

// The first rank of a machine speaks for all.
void say(const char* before, const char* what) noexcept {
  const char* rank = std::getenv("LOCAL_RANK");
  if (rank && std::strcmp(rank, "0") != 0) return;
  base::Text<1024> line;
  base::say(line.add(before).add(what).c_str());
}

// malloc read its tunables when this process started; what it is told now its forks inherit.
void tell_malloc(const char* tunables) noexcept {
  constexpr struct {
    const char* tunable;
    int option;
  } kOptions[] = {{"glibc.malloc.trim_threshold=", M_TRIM_THRESHOLD},
                  {"glibc.malloc.mmap_threshold=", M_MMAP_THRESHOLD}};
  for (const auto& known : kOptions) {
    const char* at = std::strstr(tunables, known.tunable);
    const long value = at ? std::strtol(at + std::strlen(known.tunable), nullptr, 10) : 0;
    if (value > 0 && value <= INT32_MAX) mallopt(known.option, static_cast<int>(value));
  }
}

void set_environment(const Request& request) noexcept {
  const char* name = name_of(request.setting);
  const char* before = std::getenv(name);
  base::Text<512> what;
  what.add(name).add('=').add(request.value);
  // Where the parent process set it, what was before is not known.
  if (!before)
    what.add(" (was not set)");
  else if (std::strcmp(before, request.value) != 0)
    what.add(" (was ").add(before).add(')');
  if (setenv(name, request.value, 1) == 0) note(g_applied, what.c_str());
  if (request.setting == Setting::GLIBC_TUNABLES) tell_malloc(request.value);
}

}  // namespace

const char* name_of(Setting setting) noexcept {
  return kRows[static_cast<size_t>(setting)].name;
}

bool Request::is_true() const noexcept {
  return std::strcmp(value, "True") == 0 || std::strcmp(value, "true") == 0 || std::strcmp(value, "1") == 0;
}

long Request::number() const noexcept {
  char* end = nullptr;
  const long result = std::strtol(value, &end, 10);
  return *end || end == value || result < 0 ? -1 : result;
}

void read_requests() noexcept {
  const char* text = runtime::config().apply;
  if (!text) return;
  g_is_understood = parse(text);
  if (!g_is_understood) g_count = 0;
  for (size_t i = 0; i < g_count; ++i)
    if (kRows[static_cast<size_t>(g_requests[i].setting)].kind == Kind::Environment)
      set_environment(g_requests[i]);
}

bool is_any_requested() noexcept {
  return g_count > 0;
}

const Request* find(Setting setting, const char* place) noexcept {
  for (size_t i = 0; i < g_count; ++i) {
    const Request& request = g_requests[i];
    if (request.setting == setting && (!request.place[0] || is_end_of(request.place, place))) return &request;
  }
  return nullptr;
}

void note_applied(const char* what) noexcept {
  say("applied ", what);
  note_applied_silently(what);
}

void note_applied_silently(const char* what) noexcept {
  note(g_applied, what);
}

void note_refused(const char* what_and_why) noexcept {
  say("not applied: ", what_and_why);
  note(g_refused, what_and_why);
}

void on_recording() noexcept {
  if (!g_is_understood) {
    base::Text<512> why;
    note(g_refused, why.add(runtime::config().apply).add(": GPUWATCH_APPLY is not understood").c_str());
    say("GPUWATCH_APPLY is not understood, nothing is applied; `gpuwatch run --help` lists the settings: ",
        runtime::config().apply);
  }
  if (g_applied.count > 0) say("applied ", g_applied.texts[0]);
  write(g_applied);
  write(g_refused);
}

}  // namespace gpuwatch::hooks::applied
