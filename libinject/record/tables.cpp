// SPDX-License-Identifier: Apache-2.0
// The cold half: tables (texts, configuration, clock samples, ...) go back to back into a table chunk of this
// process, under a lock, each laid down from its template and published by the chunk's length.
#include "libinject/record/tables.h"

#include <sys/mman.h>

#include <cstring>

#include "libinject/base/errno_guard.h"
#include "libinject/base/futex_lock.h"
#include "libinject/base/syscall.h"
#include "libinject/base/text.h"
#include "libinject/record/recorder.h"
#include "libinject/record/space.h"
#include "libinject/record/thread_recorder.h"
#include "libinject/runtime/config.h"
#include "libinject/runtime/fork_epoch.h"
#include "libinject/trace/layout.h"

namespace gpuwatch::record {
namespace {

using namespace trace;

constexpr size_t kMaxTextBytes = 4000;
constexpr size_t kMaxTableBytes = kMaxTextBytes + sizeof TextTemplate::kBytes + 16;

constinit base::FutexLock g_table_lock;
constinit uint8_t* g_frame = nullptr;  // the table chunk of this process
constinit uint32_t g_used = 0;
constinit uint32_t g_capacity = 0;
constinit uint32_t g_table_epoch = 0;

// Texts already written, by hash. Forked children inherit it: ids are unique in the file they share.
struct KnownText {
  uint64_t hash;
  uint32_t id;
};
constexpr size_t kKnownTexts = 1 << 16;
constinit KnownText* g_known = nullptr;
constinit size_t g_known_count = 0;

uint64_t hash_of(const char* text, size_t bytes) noexcept {
  uint64_t hash = 1469598103934665603ull;  // FNV-1a
  for (size_t i = 0; i < bytes; ++i) hash = (hash ^ static_cast<uint8_t>(text[i])) * 1099511628211ull;
  return hash ? hash : 1;
}

bool take_table_chunk() noexcept {
  uint8_t* frame = space::claim(kTableChunkPages);
  if (!frame) return false;
  __builtin_memcpy(frame + 4, TableChunkTemplate::kBytes + 4, sizeof TableChunkTemplate::kBytes - 4);
  const uint32_t process = process_ordinal();
  __builtin_memcpy(frame + TableChunkTemplate::k_process, &process, 4);
  std::atomic_ref<uint32_t>(*reinterpret_cast<uint32_t*>(frame))
      .store(static_cast<uint32_t>(kTableChunkPages * kPageBytes - 4), std::memory_order_release);
  g_frame = frame;
  g_used = 0;
  g_capacity = static_cast<uint32_t>(kTableChunkPages * kPageBytes - TableChunkTemplate::kTailData);
  g_table_epoch = runtime::epoch();
  return true;
}

// Where the next table of at most `bytes` goes, or null. Lock held.
uint8_t* room_for_table(size_t bytes) noexcept {
  const bool fits = g_frame && g_table_epoch == runtime::epoch() && g_used + bytes <= g_capacity;
  if (!fits && !take_table_chunk()) return nullptr;
  return g_frame + TableChunkTemplate::kTailData + g_used;
}

void publish(size_t bytes) noexcept {
  g_used += static_cast<uint32_t>((bytes + 7) & ~size_t{7});
  auto* length = reinterpret_cast<uint32_t*>(g_frame + TableChunkTemplate::kTailLength);
  std::atomic_ref<uint32_t>(*length).store(g_used, std::memory_order_release);
}

KnownText* find_known(uint64_t hash) noexcept {
  if (!g_known) {
    g_known = static_cast<KnownText*>(base::sys_mmap(kKnownTexts * sizeof(KnownText), PROT_READ | PROT_WRITE,
                                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (!g_known) return nullptr;
  }
  size_t at = hash % kKnownTexts;
  while (g_known[at].hash && g_known[at].hash != hash) at = (at + 1) % kKnownTexts;
  return &g_known[at];
}

template <class Fields>
void put_table(const Fields& fields) noexcept {
  if (!is_recording()) return;
  const base::ErrnoGuard keep_errno;
  const Quiet quiet;
  if (!join_process()) return;
  const base::FutexGuard guard(g_table_lock, current_pid());
  if (uint8_t* to = room_for_table(kMaxTableBytes < 512 ? kMaxTableBytes : 512))
    publish(lay_down(to, fields));
}

}  // namespace

// A table of scalars is at most this long; put_table asks for that much room.
#define GW_CHECK_SIZE(table, identifier) static_assert(sizeof table##Template::kBytes <= 512);
GW_TRACE_TABLES(GW_CHECK_SIZE)
#undef GW_CHECK_SIZE

#define GW_DEFINE_PUT(table)                              \
  void put(const trace::table##Fields& fields) noexcept { \
    put_table(fields);                                    \
  }
GW_DEFINE_PUT(Operation)
GW_DEFINE_PUT(Process)
GW_DEFINE_PUT(ThreadName)
GW_DEFINE_PUT(ClockSample)
GW_DEFINE_PUT(Module)
GW_DEFINE_PUT(KernelInfo)
GW_DEFINE_PUT(StreamInfo)
GW_DEFINE_PUT(DeviceInfo)
GW_DEFINE_PUT(LoaderInfo)
GW_DEFINE_PUT(WorkerInfo)
GW_DEFINE_PUT(Loss)
GW_DEFINE_PUT(Source)
GW_DEFINE_PUT(Fact)
GW_DEFINE_PUT(Sample)
GW_DEFINE_PUT(ProcessEnd)
GW_DEFINE_PUT(Mount)
GW_DEFINE_PUT(DeviceSample)
GW_DEFINE_PUT(PipelineStage)
#undef GW_DEFINE_PUT

uint32_t intern(const char* text, size_t bytes) noexcept {
  if (!is_recording()) return 0;
  const base::ErrnoGuard keep_errno;
  const Quiet quiet;
  if (!join_process()) return 0;
  if (bytes > kMaxTextBytes) bytes = kMaxTextBytes;
  const uint64_t hash = hash_of(text, bytes);
  const base::FutexGuard guard(g_table_lock, current_pid());
  KnownText* known = find_known(hash);
  if (known && known->hash) return known->id;
  uint8_t* to = room_for_table(bytes + sizeof TextTemplate::kBytes + 16);
  if (!to) return 0;
  TextFields fields;
  fields.id = space::next_id();
  publish(lay_down(to, fields, text, static_cast<uint32_t>(bytes)));
  // Kept at most three quarters full; beyond that a text is written again each time it is seen.
  if (known && g_known_count < kKnownTexts / 4 * 3) {
    *known = {hash, fields.id};
    ++g_known_count;
  }
  return fields.id;
}

uint32_t intern(const char* text) noexcept {
  return text ? intern(text, std::strlen(text)) : 0;
}

WrittenPath written_path(const char* path) noexcept {
  WrittenPath written;
  const char* slash = std::strrchr(path, '/');
  switch (runtime::config().paths) {
    case runtime::PathStyle::kFull:
      written.add(path);
      break;
    case runtime::PathStyle::kBasename:
      written.add(slash ? slash + 1 : path);
      break;
    case runtime::PathStyle::kHash:
      uint64_t hash = hash_of(path, std::strlen(path));
      for (int digit = 0; digit < 16; ++digit, hash >>= 4) written.add("0123456789abcdef"[hash & 15]);
  }
  return written;
}

uint32_t intern_path(const char* path) noexcept {
  if (!path) return 0;
  if (runtime::config().paths == runtime::PathStyle::kFull) return intern(path);
  return intern(written_path(path).c_str());
}

uint32_t new_id() noexcept {
  return is_recording() ? space::next_id() : 0;
}

namespace {

using SourceText = base::Text<256>;

SourceText text_of(const char* name, const SourceStatus& status) noexcept {
  SourceText text;
  if (status.text) return text.add(status.text);
  switch (status.state) {
    case SourceState::On:
      return text.add("on");
    case SourceState::Off:
      return text.add("off by GPUWATCH_TRACE; add ").add(name).add(" to it to record this");
    case SourceState::Held:
      return text.add("held by ").add(status.holder);
    case SourceState::Yielded:
      return text.add("yielded to ").add(status.holder);
    default:
      return text.add("not recorded");
  }
}

}  // namespace

void put_source(const char* name, const SourceStatus& status) noexcept {
  SourceFields fields;
  fields.process = process_ordinal();
  fields.name = intern(name);
  fields.text = intern(text_of(name, status).c_str());
  fields.ticks = base::ticks();
  fields.state = static_cast<uint8_t>(status.state);
  fields.holder = intern(status.holder);
  put(fields);
}

void put_fact(const char* key, const char* value) noexcept {
  FactFields fields;
  fields.process = process_ordinal();
  fields.key = intern(key);
  fields.value = intern(value);
  put(fields);
}

void put_fact(const char* key, uint64_t value) noexcept {
  base::Text<24> text;
  put_fact(key, text.add(value).c_str());
}

// Each clock is read between two readings of CLOCK_MONOTONIC and converted to the instant at which the ticks
// were read. With one pair of readings around all clocks, the ticks, which are read last, would be off by 50
// ns, and with them the time of every host call.
void sample_clocks(uint64_t (*read_device_ns)() noexcept) noexcept {
  ClockSampleFields best;
  uint64_t width = UINT64_MAX;
  for (int attempt = 0; attempt < 5; ++attempt) {
    ClockSampleFields now;
    const uint64_t m0 = base::monotonic_ns();
    const uint64_t ticks = base::ticks();
    const uint64_t m1 = base::monotonic_ns();
    const uint64_t realtime_ns = base::realtime_ns();
    const uint64_t m2 = base::monotonic_ns();
    const uint64_t device_ns = read_device_ns ? read_device_ns() : 0;
    const uint64_t m3 = base::monotonic_ns();
    if (m3 - m0 >= width) continue;
    width = m3 - m0;
    now.monotonic_ns = m0 + (m1 - m0) / 2;
    now.ticks = base::g_ticks_are_tsc ? ticks : now.monotonic_ns;
    now.realtime_ns = realtime_ns - (m1 + (m2 - m1) / 2 - now.monotonic_ns);
    if (device_ns) now.device_ns = device_ns - (m2 + (m3 - m2) / 2 - now.monotonic_ns);
    const uint64_t half_width = (m1 - m0 > m3 - m2 ? m1 - m0 : m3 - m2) / 2;
    now.bracket_ns = static_cast<uint32_t>(half_width > UINT32_MAX ? UINT32_MAX : half_width);
    best = now;
  }
  best.process = process_ordinal();
  put(best);
}

namespace {

struct LossCounter {
  std::atomic<const char*> reason{nullptr};
  std::atomic<uint64_t> count{0};
};
constinit LossCounter g_losses[32];
constinit std::atomic<uint32_t> g_losses_epoch{0};  // of the process that they were counted in

}  // namespace

void begin_losses() noexcept {
  if (!runtime::g_epoch) return;  // nothing is recorded yet
  uint32_t epoch = runtime::epoch();
  if (!epoch) epoch = runtime::enter_epoch();
  if (g_losses_epoch.load(std::memory_order_relaxed) == epoch) return;
  const uint32_t before = g_losses_epoch.exchange(epoch, std::memory_order_relaxed);
  if (before == epoch || before == 0) return;
  take_torn_records();  // these and the others are written by the process that they happened in
  for (auto& loss : g_losses) loss.count.store(0, std::memory_order_relaxed);
}

void lose(const char* reason, uint64_t count) noexcept {
  begin_losses();
  for (auto& loss : g_losses) {
    const char* seen = loss.reason.load(std::memory_order_acquire);
    if (!seen && loss.reason.compare_exchange_strong(seen, reason)) seen = reason;
    if (seen != reason) continue;
    loss.count.fetch_add(count, std::memory_order_relaxed);
    return;
  }
}

void write_losses() noexcept {
  if (const uint64_t torn = take_torn_records()) lose("records interrupted by a signal handler", torn);
  for (auto& loss : g_losses) {
    const char* reason = loss.reason.load(std::memory_order_acquire);
    const uint64_t count = reason ? loss.count.exchange(0, std::memory_order_relaxed) : 0;
    if (!count) continue;
    LossFields fields;
    fields.process = process_ordinal();
    fields.reason = intern(reason);
    fields.count = count;
    put(fields);
  }
}

}  // namespace gpuwatch::record
