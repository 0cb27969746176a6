// SPDX-License-Identifier: Apache-2.0
// The hot half: enter, leave and what stands between a thread and its next slot.
#include "libinject/record/recorder.h"

#include <pthread.h>

#include "libinject/base/errno_guard.h"
#include "libinject/base/futex_lock.h"
#include "libinject/base/syscall.h"
#include "libinject/record/space.h"
#include "libinject/record/tables.h"
#include "libinject/record/thread_name.h"
#include "libinject/record/thread_recorder.h"
#include "libinject/runtime/fork_epoch.h"
#include "libinject/trace/layout.h"

namespace gpuwatch::record {

constinit std::atomic<State> g_state{State::kDormant};
GW_TLS ThreadRecorder* t_recorder = nullptr;
GW_TLS bool t_quiet = false;

namespace {

using namespace trace;

GW_TLS bool t_thread_ended = false;
constinit base::FutexLock g_pool_lock;
constinit ThreadRecorder* g_free = nullptr;  // recorders of ended threads, and unused ones of the last block
constinit bool g_has_key = false;
pthread_key_t g_key;
constinit std::atomic<uint64_t> g_torn{0};  // records dropped because a signal handler interrupted a store

// After the last access: the next one would bring it back. Not the first, small chunk, which space releases
// with others: for each thread that ends it would cost a flush of all CPUs' TLBs.
void release_chunk(ThreadRecorder* thread) noexcept {
  if (thread->slots && thread->pages >= kChunkPages) {
    auto* full = reinterpret_cast<uint8_t*>(thread->slots) - ChunkTemplate::kTailData;
    space::release(full, thread->pages);
  }
  thread->slots = nullptr;
}

// Nothing was stored in its first chunk: the next thread can have it. 20 000 threads that made one short call
// each took 80 MiB.
bool has_unused_chunk(const ThreadRecorder& thread) noexcept {
  return thread.slots && thread.sequence == 1 && thread.count == 0 && thread.epoch == runtime::epoch();
}

// Runs at thread exit. C++ thread-local destructors have run by then, other keys' may not have: hooks called
// later on this thread find t_thread_ended and record nothing.
void end_thread(void* recorder) noexcept {
  auto* thread = static_cast<ThreadRecorder*>(recorder);
  t_thread_ended = true;
  t_recorder = nullptr;
  if (thread->epoch != runtime::epoch()) return;
  if (thread->open) thread->open->depth = 0;
  if (!has_unused_chunk(*thread)) release_chunk(thread);
  const base::FutexGuard guard(g_pool_lock, current_pid());
  thread->next_free = g_free;
  g_free = thread;
}

// 4 KiB at a time, never given back: about 50 recorders. malloc may be the job's own and may be hooked.
ThreadRecorder* take_recorder() noexcept {
  const base::FutexGuard guard(g_pool_lock, current_pid());
  if (!g_free) {
    auto* block = static_cast<ThreadRecorder*>(
        base::sys_mmap(kPageBytes, 3 /* read, write */, 0x22 /* private, anonymous */, -1, 0));
    if (!block) return nullptr;
    for (size_t i = 0; i < kPageBytes / sizeof(ThreadRecorder); ++i) {
      block[i].next_free = g_free;
      g_free = &block[i];
    }
  }
  ThreadRecorder* taken = g_free;
  g_free = taken->next_free;
  if (!has_unused_chunk(*taken)) *taken = ThreadRecorder{};
  taken->depth = 0;
  taken->is_storing = false;
  return taken;
}

void carry_open_calls_over(ThreadRecorder* thread, OpenCallsInPlace* to) noexcept {
  if (thread->open) {
    *to = *thread->open;
    thread->open->depth = 0;
  }
  thread->open = to;
}

bool take_chunk(ThreadRecorder* thread) noexcept {
  const uint32_t pages = thread->sequence == 0 ? kFirstChunkPages : kChunkPages;
  uint8_t* frame = space::claim(pages);
  if (!frame) {
    if (space::is_stopped()) g_state.store(State::kOff, std::memory_order_relaxed);
    return false;
  }
  // The size prefix goes last: until then the reader takes the frame for one that was never laid down.
  __builtin_memcpy(frame + 4, ChunkTemplate::kBytes + 4, sizeof ChunkTemplate::kBytes - 4);
  const uint32_t process = process_ordinal();
  __builtin_memcpy(frame + ChunkTemplate::k_process, &process, 4);
  __builtin_memcpy(frame + ChunkTemplate::k_thread, &thread->tid, 4);
  __builtin_memcpy(frame + ChunkTemplate::k_sequence, &thread->sequence, 4);
  carry_open_calls_over(thread, reinterpret_cast<OpenCallsInPlace*>(frame + ChunkTemplate::k_open));
  release_chunk(thread);
  std::atomic_ref<uint32_t>(*reinterpret_cast<uint32_t*>(frame))
      .store(static_cast<uint32_t>(pages * kPageBytes - 4), std::memory_order_release);

  thread->slots = reinterpret_cast<Slot*>(frame + ChunkTemplate::kTailData);
  thread->length = reinterpret_cast<uint32_t*>(frame + ChunkTemplate::kTailLength);
  thread->count = 0;
  thread->capacity = static_cast<uint32_t>((pages * kPageBytes - ChunkTemplate::kTailData) / sizeof(Slot));
  thread->pages = pages;
  ++thread->sequence;
  return true;
}

// The unused chunk of an ended thread, or a new one.
bool have_first_chunk(ThreadRecorder* thread) noexcept {
  if (!has_unused_chunk(*thread)) return take_chunk(thread);
  auto* frame = reinterpret_cast<uint8_t*>(thread->slots) - ChunkTemplate::kTailData;
  __builtin_memcpy(frame + ChunkTemplate::k_thread, &thread->tid, 4);
  return true;
}

// The recorder of this thread if it may record now; null otherwise.
inline ThreadRecorder* usable_thread() noexcept {
  ThreadRecorder* thread = t_recorder;
  if (GW_UNLIKELY(thread == nullptr || thread->epoch != runtime::epoch())) return prepare_thread();
  return GW_UNLIKELY(t_quiet) ? nullptr : thread;
}

struct PackedSpan {
  uint32_t span;
  uint8_t flag;
};

inline PackedSpan pack_span(uint64_t ticks) noexcept {
  if (GW_LIKELY(ticks <= UINT32_MAX)) return {static_cast<uint32_t>(ticks), 0};
  const uint64_t scaled = ticks >> 10;
  return {scaled > UINT32_MAX ? UINT32_MAX : static_cast<uint32_t>(scaled), kLongSpan};
}

template <class Detail>
inline void store(ThreadRecorder* thread, const Slot& head, const Detail* detail) noexcept {
  static_assert(sizeof(Detail) == 1 || sizeof(Detail) % sizeof(Slot) == 0);
  constexpr uint32_t kSlots = 1 + sizeof(Detail) / sizeof(Slot);
  const uint32_t needed = detail ? kSlots : 1;
  if (GW_UNLIKELY(thread->is_storing)) {
    g_torn.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (GW_UNLIKELY(thread->count == 0 && thread->sequence == 1)) put_given_thread_name(thread->tid);
  thread->is_storing = true;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (GW_LIKELY(thread->count + needed <= thread->capacity) || make_room(thread, needed)) {
    Slot* to = thread->slots + thread->count;
    *to = head;
    if (detail) __builtin_memcpy(static_cast<void*>(to + 1), detail, sizeof(Detail));
    thread->count += needed;
    std::atomic_ref<uint32_t>(*thread->length).store(thread->count, std::memory_order_release);
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
  thread->is_storing = false;
}

inline void pop(const Scope& scope) noexcept {
  ThreadRecorder* thread = scope.thread;
  // A call that was left by longjmp, a C++ exception or thread cancellation never came here: the levels above
  // this one are dropped with it.
  thread->depth = scope.depth;
  if (thread->open) thread->open->depth = scope.depth;
}

template <class Detail>
inline void store_span(uint16_t op, uint64_t begin, uint64_t end, uint8_t flags, uint32_t a, uint32_t b,
                       const Detail* detail) noexcept {
  if (!is_recording()) return;
  ThreadRecorder* thread = usable_thread();
  if (!thread) return;
  const PackedSpan packed = pack_span(end - begin);
  flags = static_cast<uint8_t>(flags | packed.flag | (detail ? sizeof(Detail) / sizeof(Slot) : 0));
  store(thread, Slot(RecordKind::Host, flags, op, packed.span, begin, a, b), detail);
}

// Not after a fork within the call, whose child has the scope, too.
template <class Detail>
GW_COLD void finish_in_new_child(const Scope& scope, uint8_t flags, uint32_t a, uint32_t b,
                                 const Detail* detail) noexcept {
  if (scope && scope.depth == static_cast<uint32_t>(base::sys_getpid()))
    store_span(scope.op, scope.begin, base::ticks(), flags, a, b, detail);
}

template <class Detail>
inline void finish(const Scope& scope, uint8_t flags, uint32_t a, uint32_t b, const Detail* detail) noexcept {
  ThreadRecorder* thread = scope.thread;
  if (!thread) return finish_in_new_child(scope, flags, a, b, detail);
  if (thread->epoch != runtime::epoch()) return;  // the child of a fork that happened inside the call
  const PackedSpan packed = pack_span(base::ticks() - scope.begin);
  flags = static_cast<uint8_t>(flags | packed.flag | (detail ? sizeof(Detail) / sizeof(Slot) : 0));
  store(thread, Slot(RecordKind::Host, flags, scope.op, packed.span, scope.begin, a, b), detail);
  pop(scope);
}

template <class Detail>
inline void mark_with(uint16_t op, uint8_t flags, uint32_t a, uint32_t b, const Detail& detail) noexcept {
  if (!is_recording()) return;
  if (ThreadRecorder* thread = usable_thread()) {
    store(thread, Slot(RecordKind::Host, static_cast<uint8_t>(flags | 1), op, 0, base::ticks(), a, b),
          &detail);
  }
}

using NoDetail = char;
constexpr const NoDetail* kNoDetail = nullptr;

}  // namespace

GW_COLD ThreadRecorder* prepare_thread() noexcept {
  if (t_quiet || t_thread_ended || !is_recording()) return nullptr;
  const base::ErrnoGuard keep_errno;
  const Quiet quiet;
  if (!join_process()) return nullptr;
  // In a forked child the parent's recorder is leaked: its chunk is the parent's.
  ThreadRecorder* thread = take_recorder();
  if (!thread) return nullptr;
  thread->epoch = runtime::epoch();
  thread->tid = static_cast<uint32_t>(base::sys_gettid());
  if (!have_first_chunk(thread)) return nullptr;
  if (pthread_key_create && pthread_setspecific) {
    if (!g_has_key) {
      const base::FutexGuard guard(g_pool_lock, current_pid());
      if (!g_has_key) g_has_key = pthread_key_create(&g_key, end_thread) == 0;
    }
    if (g_has_key) pthread_setspecific(g_key, thread);
  }
  t_recorder = thread;
  return thread;
}

GW_COLD bool make_room(ThreadRecorder* thread, uint32_t slots) noexcept {
  const base::ErrnoGuard keep_errno;
  const Quiet quiet;
  return is_recording() && take_chunk(thread) && slots <= thread->capacity;
}

uint64_t take_torn_records() noexcept {
  return g_torn.exchange(0, std::memory_order_relaxed);
}

Scope enter(uint16_t op, uint32_t object) noexcept {
  if (!is_recording()) return {};
  ThreadRecorder* thread = usable_thread();
  if (GW_UNLIKELY(!thread)) return {};
  const uint64_t now = base::ticks();
  const uint32_t depth = thread->depth;
  OpenCallsInPlace* open = thread->open;
  if (GW_LIKELY(depth < kOpenCallLevels)) {
    open->calls[depth].since = now;
    open->calls[depth].op = op;
    open->calls[depth].a = object;
  }
  thread->depth = depth + 1;
  std::atomic_ref<uint32_t>(open->depth).store(depth + 1, std::memory_order_release);
  return {thread, now, depth, op};
}

Scope enter_wait(uint16_t op, uint32_t object) noexcept {
  const bool is_new_child = is_recording() && runtime::epoch() == 0;
  if (GW_LIKELY(!is_new_child)) return enter(op, object);
  if (t_quiet || t_thread_ended) return {};
  return {nullptr, base::ticks(), static_cast<uint32_t>(base::sys_getpid()), op};
}

void leave(const Scope& scope, uint8_t flags, uint32_t a, uint32_t b) noexcept {
  finish(scope, flags, a, b, kNoDetail);
}
void leave(const Scope& scope, uint8_t flags, uint32_t a, uint32_t b,
           const trace::CallDetail& detail) noexcept {
  finish(scope, flags, a, b, &detail);
}
void leave(const Scope& scope, uint8_t flags, uint32_t a, uint32_t b,
           const trace::EventDetail& detail) noexcept {
  finish(scope, flags, a, b, &detail);
}
void leave(const Scope& scope, uint8_t flags, uint32_t a, uint32_t b,
           const trace::CpuDetail& detail) noexcept {
  finish(scope, flags, a, b, &detail);
}
void leave(const Scope& scope, uint8_t flags, uint32_t a, uint32_t b,
           const trace::IoDetail& detail) noexcept {
  finish(scope, flags, a, b, &detail);
}

void leave(const Scope& scope, uint8_t flags, uint32_t a, uint32_t b, const trace::CpuDetail& detail,
           const trace::IoCounts& counts) noexcept {
  const struct {
    trace::CpuDetail cpu;
    trace::IoCounts io;
  } details = {detail, counts};
  finish(scope, flags, a, b, &details);
}

void leave_unrecorded(const Scope& scope) noexcept {
  if (scope.thread && scope.thread->epoch == runtime::epoch()) pop(scope);
}

void mark(uint16_t op, uint8_t flags, uint32_t a, uint32_t b) noexcept {
  const uint64_t now = base::ticks();
  span(op, now, now, flags, a, b);
}

void mark(uint16_t op, uint8_t flags, uint32_t a, uint32_t b, const trace::CallDetail& detail) noexcept {
  mark_with(op, flags, a, b, detail);
}
void mark(uint16_t op, uint8_t flags, uint32_t a, uint32_t b, const trace::ShapeDetail& detail) noexcept {
  mark_with(op, flags, a, b, detail);
}

void span(uint16_t op, uint64_t begin, uint64_t end, uint8_t flags, uint32_t a, uint32_t b) noexcept {
  store_span(op, begin, end, flags, a, b, kNoDetail);
}
void span(uint16_t op, uint64_t begin, uint64_t end, uint8_t flags, uint32_t a, uint32_t b,
          const trace::RangeDetail& detail) noexcept {
  store_span(op, begin, end, flags, a, b, &detail);
}

void stack(uint16_t op, uint64_t begin, uint32_t text) noexcept {
  if (!is_recording()) return;
  if (ThreadRecorder* thread = usable_thread()) {
    store(thread, Slot(RecordKind::Stack, 0, op, 0, begin, text, 0), kNoDetail);
  }
}

void worker_stack(uint16_t op, uint64_t begin, uint64_t ticks, uint32_t text, uint32_t pid) noexcept {
  if (!is_recording()) return;
  if (ThreadRecorder* thread = usable_thread()) {
    const PackedSpan packed = pack_span(ticks);
    store(thread, Slot(RecordKind::WorkerStack, packed.flag, op, packed.span, begin, text, pid), kNoDetail);
  }
}

void device(const trace::Slot& slot) noexcept {
  if (!is_recording()) return;
  // Whoever delivers device records is quiet (it is we who wait inside CUPTI), but they are the job's.
  const bool quiet = t_quiet;
  t_quiet = false;
  if (ThreadRecorder* thread = usable_thread()) store(thread, slot, kNoDetail);
  t_quiet = quiet;
}

bool is_quiet() noexcept {
  return t_quiet;
}

Quiet::Quiet() noexcept : before_(t_quiet) {
  t_quiet = true;
}
Quiet::~Quiet() noexcept {
  t_quiet = before_;
}

}  // namespace gpuwatch::record
