// SPDX-License-Identifier: Apache-2.0
#include "hooks/nvtx/names.h"

#include <cstring>
#include <new>

#include "libinject/base/compiler.h"
#include "libinject/base/futex_lock.h"
#include "libinject/base/syscall.h"
#include "libinject/record/recorder.h"

namespace gpuwatch::hooks::nvtx {
namespace {

constexpr size_t kMaxNameBytes = 256;  // of a message; longer ones are cut
constexpr uint32_t kMaxExactNames = 2048;
constexpr uint32_t kMaxNames = 2 * kMaxExactNames;
constexpr const char kTooManyNames[] = GW_INCOMPLETE "NVTX ranges lack their name: it came after 4096 others";
constexpr const char kTooManyHandles[] =
    GW_INCOMPLETE "NVTX ranges lack their name or domain: more than 3072 are registered";
constexpr const char kTooManyCategories[] =
    GW_INCOMPLETE "NVTX ranges may lack the name of their category: more than 768 have one";
constexpr const char kTooManyThreads[] =
    GW_INCOMPLETE "threads lack their name in NVTX: more than 192 were named before recording began";

constinit base::FutexLock g_lock;

// An open-addressing table whose readers take no lock. The value is there before its key is.
template <class Value, size_t kSize>
struct Table {
  struct Entry {
    std::atomic<uint64_t> key;
    std::atomic<Value> value;
  };
  static constexpr uint32_t kMost = kSize / 4 * 3;
  Entry entries[kSize];
  uint32_t count;
  std::atomic<bool> is_cut;  // a key found no room

  Value find(uint64_t key) const noexcept {
    for (size_t i = 0, at = key % kSize; i < kSize; ++i, at = (at + 1) % kSize) {
      const uint64_t there = entries[at].key.load(std::memory_order_acquire);
      if (GW_LIKELY(there == key)) return entries[at].value.load(std::memory_order_relaxed);
      if (there == 0) break;
    }
    return Value{};
  }
  // Lock held. False where there is no room for a new key.
  bool put(uint64_t key, Value value) noexcept {
    size_t at = key % kSize;
    uint64_t there = 0;
    while ((there = entries[at].key.load(std::memory_order_relaxed)) != 0 && there != key)
      at = (at + 1) % kSize;
    if (there == 0 && count >= kMost) {
      is_cut.store(true, std::memory_order_relaxed);
      return false;
    }
    entries[at].value.store(value, std::memory_order_relaxed);
    count += entries[at].key.exchange(key, std::memory_order_release) == 0;
    return true;
  }
  // As find; what may be missing for lack of room is counted.
  Value find_or_count(uint64_t key, const char* reason) const noexcept {
    const Value found = find(key);
    if (GW_UNLIKELY(!found && is_cut.load(std::memory_order_relaxed))) record::lose(reason, 1);
    return found;
  }
};

constinit Table<uint32_t, 8192> g_ids{};  // by hash of the text
constinit Table<Name*, 4096> g_handles{};
constinit Table<Name*, 1024> g_categories{};
constinit Table<Name*, 256> g_threads{};  // by gettid()

uint64_t mix(uint64_t hash, uint64_t word) noexcept {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15;
  return hash ^ hash >> 29;
}

uint64_t hash_of(const char* text, size_t bytes) noexcept {
  uint64_t hash = bytes + 1, word = 0;
  for (; bytes >= sizeof word; text += sizeof word, bytes -= sizeof word) {
    __builtin_memcpy(&word, text, sizeof word);
    hash = mix(hash, word);
  }
  word = 0;
  for (size_t i = 0; i < bytes; ++i) word |= uint64_t{static_cast<uint8_t>(text[i])} << 8 * i;
  hash = mix(mix(hash, word), 0);
  return hash ? hash : 1;
}

size_t without_digits(const char* text, size_t bytes, char* to) noexcept {
  size_t length = 0;
  for (size_t i = 0; i < bytes; ++i) {
    const bool is_digit = text[i] >= '0' && text[i] <= '9';
    if (is_digit && length > 0 && to[length - 1] == '#') continue;
    to[length++] = is_digit ? '#' : text[i];
  }
  return length;
}

// Writes the text on first sight.
GW_COLD uint32_t meet(const char* text, size_t bytes, uint64_t hash) noexcept {
  char folded[kMaxNameBytes];
  const record::Quiet quiet;  // a signal handler must not wait for the lock of its own thread
  const base::FutexGuard guard(g_lock, static_cast<uint32_t>(base::sys_getpid()));
  if (g_ids.count >= kMaxExactNames) {
    bytes = without_digits(text, bytes, folded);
    text = folded;
    hash = hash_of(text, bytes);
  }
  if (const uint32_t known = g_ids.find(hash)) return known;
  if (g_ids.count >= kMaxNames) {
    record::lose(kTooManyNames, 1);
    return 0;
  }
  const uint32_t id = record::intern(text, bytes);
  if (id) g_ids.put(hash, id);
  return id;
}

// XLA, JAX and TensorFlow write what differs each time behind the name:
// "XlaPass:#name=fusion,module=jit_step#". All 4096 names of a run of JAX were such, and its steps had none.
size_t without_metadata(const char* text, size_t bytes) noexcept {
  if (bytes == 0 || text[bytes - 1] != '#') return bytes;
  const auto* begin = static_cast<const char*>(std::memchr(text, '#', bytes));
  const auto length = static_cast<size_t>(begin - text);
  if (length < 2 || !std::memchr(begin, '=', bytes - length)) return bytes;
  return text[length - 1] == ':' ? length - 1 : length;
}

uint32_t id_of_text(const char* text, size_t bytes) noexcept {
  bytes = without_metadata(text, bytes);
  if (bytes > kMaxNameBytes) bytes = kMaxNameBytes;
  const uint64_t hash = hash_of(text, bytes);
  if (const uint32_t known = g_ids.find(hash)) return known;
  return meet(text, bytes, hash);
}

// wchar_t is UTF-32 on Linux.
struct Utf8 {
  char text[kMaxNameBytes + 1];
  size_t bytes = 0;

  explicit Utf8(const wchar_t* wide) noexcept {
    for (; *wide && bytes + 4 <= kMaxNameBytes; ++wide) add(static_cast<uint32_t>(*wide));
    text[bytes] = 0;
  }

 private:
  void put(uint32_t byte) noexcept { text[bytes++] = static_cast<char>(byte); }
  void add(uint32_t c) noexcept {
    if (c >= 0x110000) c = 0xfffd;
    if (c < 0x80) return put(c);
    if (c < 0x800) {
      put(0xc0 | c >> 6);
    } else {
      if (c < 0x10000) {
        put(0xe0 | c >> 12);
      } else {
        put(0xf0 | c >> 18);
        put(0x80 | (c >> 12 & 0x3f));
      }
      put(0x80 | (c >> 6 & 0x3f));
    }
    put(0x80 | (c & 0x3f));
  }
};

// Lock held. 64 KiB at a time, never given back.
void* allocate(size_t bytes) noexcept {
  constexpr size_t kBlockBytes = 64 << 10;
  static char* block = nullptr;
  static size_t left = 0;
  bytes = (bytes + alignof(Name) - 1) & ~(alignof(Name) - 1);
  if (bytes > left) {
    block = static_cast<char*>(
        base::sys_mmap(kBlockBytes, 3 /* read, write */, 0x22 /* private, anonymous */, -1, 0));
    left = block ? kBlockBytes : 0;
    if (!block) return nullptr;
  }
  void* taken = block;
  block += bytes;
  left -= bytes;
  return taken;
}

Name* keep(const char* text, size_t bytes) noexcept {
  bytes = without_metadata(text, bytes);
  if (bytes > kMaxNameBytes) bytes = kMaxNameBytes;
  const record::Quiet quiet;
  const base::FutexGuard guard(g_lock, static_cast<uint32_t>(base::sys_getpid()));
  void* memory = allocate(sizeof(Name) + bytes);
  if (!memory) return nullptr;
  auto* name = new (memory) Name;
  name->bytes = static_cast<uint32_t>(bytes);
  __builtin_memcpy(name->text, text, bytes);
  name->text[bytes] = 0;
  return name;
}

uint64_t key_of(const void* domain, uint32_t category) noexcept {
  const uint64_t key = mix(reinterpret_cast<uintptr_t>(domain), category);
  return key ? key : 1;
}

void write_thread_name(uint64_t thread, Name* name) noexcept {
  trace::ThreadNameFields fields;
  fields.process = record::process_ordinal();
  fields.thread = static_cast<uint32_t>(thread);
  fields.name = id_of(name);
  if (fields.name) record::put(fields);
}

}  // namespace

uint32_t text_id(const char* text) noexcept {
  return text ? id_of_text(text, std::strlen(text)) : 0;
}

uint32_t text_id(const wchar_t* text) noexcept {
  if (!text) return 0;
  const Utf8 utf8(text);
  return id_of_text(utf8.text, utf8.bytes);
}

Name* keep(const char* text) noexcept {
  return text ? keep(text, std::strlen(text)) : nullptr;
}

Name* keep(const wchar_t* text) noexcept {
  if (!text) return nullptr;
  const Utf8 utf8(text);
  return keep(utf8.text, utf8.bytes);
}

uint32_t id_of(Name* name) noexcept {
  if (!name) return 0;
  uint32_t id = name->id.load(std::memory_order_relaxed);
  if (GW_LIKELY(id != 0)) return id;
  id = id_of_text(name->text, name->bytes);
  name->id.store(id, std::memory_order_relaxed);
  return id;
}

void associate(Handle handle, Name* name) noexcept {
  if (!handle || !name) return;
  const record::Quiet quiet;
  const base::FutexGuard guard(g_lock, static_cast<uint32_t>(base::sys_getpid()));
  g_handles.put(reinterpret_cast<uintptr_t>(handle), name);
}

Name* associated(Handle handle) noexcept {
  return handle ? g_handles.find_or_count(reinterpret_cast<uintptr_t>(handle), kTooManyHandles) : nullptr;
}

void name_category(const void* domain, uint32_t category, Name* name) noexcept {
  if (!name) return;
  const record::Quiet quiet;
  const base::FutexGuard guard(g_lock, static_cast<uint32_t>(base::sys_getpid()));
  g_categories.put(key_of(domain, category), name);
}

Name* category_name(const void* domain, uint32_t category) noexcept {
  return g_categories.find_or_count(key_of(domain, category), kTooManyCategories);
}

void name_thread(uint32_t thread, Name* name) noexcept {
  if (!name || !thread) return;
  const record::Quiet quiet;
  bool is_kept = false;
  {
    const base::FutexGuard guard(g_lock, static_cast<uint32_t>(base::sys_getpid()));
    is_kept = g_threads.put(thread, name);
  }
  if (record::is_recording()) return write_thread_name(thread, name);
  if (!is_kept) record::lose(kTooManyThreads, 1);
}

void write_thread_names() noexcept {
  for (const auto& entry : g_threads.entries) {
    const uint64_t thread = entry.key.load(std::memory_order_acquire);
    if (thread) write_thread_name(thread, entry.value.load(std::memory_order_relaxed));
  }
}

}  // namespace gpuwatch::hooks::nvtx
