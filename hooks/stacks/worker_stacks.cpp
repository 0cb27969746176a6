// SPDX-License-Identifier: Apache-2.0
#include "hooks/stacks/worker_stacks.h"

#include <dlfcn.h>

#include <cerrno>
#include <cstring>

#include "hooks/core/operations.h"
#include "hooks/stacks/stall_stacks.h"
#include "libinject/base/clock.h"
#include "libinject/base/errno_guard.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/fork_epoch.h"
#include "libinject/unwind/module_shift.h"

namespace gpuwatch::hooks::stacks {

GW_TLS WorkerWatch t_watch;

namespace {

struct WorkerProcess {
  uint32_t pid = 0;           // 0: none, ended, or not to be read
  uint32_t failures = 0;      // in a row, to find its interpreter
  uint64_t shift = 0;         // of its interpreter's addresses against ours
  uint64_t thread_state = 0;  // of its main thread, once found
};

}  // namespace

struct WorkerSet {
  static constexpr uint32_t kMaxWorkers = 64;
  const void* iterator = nullptr;
  uint32_t count = 0;
  WorkerProcess workers[kMaxWorkers];
};

namespace {

constexpr uint32_t kSets = 16;  // live iterators with workers; a new one replaces the oldest
constinit WorkerSet g_sets[kSets];
constinit uint32_t g_next_set = 0;

// A sample of one worker takes some 0.1 ms: every 50 ms of waiting, that bounds what a batch that arrives
// meanwhile is kept to microseconds on average, and gives a second of waiting 20 samples.
constexpr uint64_t kShortestNs = 25'000'000, kLongestNs = 75'000'000;
constexpr uint32_t kWorkersPerSample = 4;
constexpr uint32_t kMaxFailures = 16;  // of a worker that starts, or that is no CPython of ours

constinit std::atomic<bool> g_is_off{false};
constinit std::atomic<bool> g_has_state{false};

WorkerSet* find_set(const void* iterator) noexcept {
  for (uint32_t i = 1; iterator && i <= kSets; ++i) {  // mostly the newest is meant
    WorkerSet& set = g_sets[(g_next_set - i) % kSets];
    if (set.iterator == iterator) return &set;
  }
  return nullptr;
}

void put_state(const record::SourceStatus& status) noexcept {
  if (!g_has_state.exchange(true, std::memory_order_relaxed)) record::put_source("worker stacks", status);
}

// xorshift64.
uint64_t next_random() noexcept {
  uint64_t x = t_watch.random ? t_watch.random : base::ticks() | 1;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return t_watch.random = x;
}

void draw_interval() noexcept {
  t_watch.interval_ns = kShortestNs + next_random() % (kLongestNs - kShortestNs);
  t_watch.left_ns = t_watch.interval_ns;
}

unwind::PythonRuntime interpreter_of(const WorkerProcess& worker) noexcept {
  unwind::PythonRuntime python = *walkable_python();
  python.runtime += worker.shift;
  python.code_type += worker.shift;
  return python;
}

// True if the worker's interpreter is at this shift; a worker that is forked has it where we have it.
bool is_found_at(WorkerProcess& worker, uint64_t shift, unwind::ForeignMemory& memory) noexcept {
  worker.shift = shift;
  const unwind::PythonRuntime python = interpreter_of(worker);
  unwind::PythonStack stack;
  worker.thread_state = unwind::main_thread_state(memory, python);
  if (worker.thread_state && unwind::capture_running(memory, python, worker.thread_state, stack)) return true;
  worker.thread_state = 0;
  return false;
}

bool find_interpreter(WorkerProcess& worker, unwind::ForeignMemory& memory) noexcept {
  if (worker.thread_state || is_found_at(worker, 0, memory)) return true;
  if (memory.error() == EPERM || memory.error() == ESRCH) return false;
  uint64_t shift = 0;
  return unwind::find_module_shift(worker.pid, walkable_python()->code_type, shift) &&
         is_found_at(worker, shift, memory);
}

void note_failure(WorkerProcess& worker, int error) noexcept {
  if (error == EPERM || error == ENOSYS) {
    g_is_off.store(true, std::memory_order_relaxed);
    put_state({trace::SourceState::Unavailable,
               "not permitted to read the workers' memory: no lines for slow transforms; allow ptrace "
               "(docker run --cap-add SYS_PTRACE)"});
  } else if (error == ESRCH || (!worker.thread_state && ++worker.failures == kMaxFailures)) {
    worker.pid = 0;
  }
}

void sample(WorkerProcess& worker, uint64_t now, uint64_t ticks) noexcept {
  unwind::ForeignMemory memory(worker.pid);
  unwind::PythonStack stack;
  if (!find_interpreter(worker, memory)) return note_failure(worker, memory.error());
  const unwind::PythonRuntime python = interpreter_of(worker);
  if (!unwind::capture_running(memory, python, worker.thread_state, stack))
    return note_failure(worker, memory.error());
  const uint32_t text = intern_stack(memory, python, stack);
  if (!text) return;
  put_state({trace::SourceState::On});
  record::worker_stack(id(Op::python_loader_next), now, ticks, text, worker.pid);
}

}  // namespace

GW_COLD bool is_interpreters(const void* caller) noexcept {
  static constinit std::atomic<const void*> known[4];  // poll and locks are called from a place or two
  for (const auto& place : known) {
    if (place.load(std::memory_order_relaxed) == caller) return true;
  }
  const auto* own = reinterpret_cast<const void*>(walkable_python()->code_type);
  Dl_info module, interpreter;
  if (!dladdr || !dladdr(caller, &module) || !dladdr(own, &interpreter)) return false;
  const char* slash = module.dli_fname ? std::strrchr(module.dli_fname, '/') : nullptr;
  const bool is_own_module = slash && (std::strncmp(slash, "/select.", 8) == 0 ||
                                       std::strncmp(slash, "/_multiprocessing.", 18) == 0);
  if (module.dli_fbase != interpreter.dli_fbase && !is_own_module) return false;
  static constinit std::atomic<uint32_t> next{0};
  known[next.fetch_add(1, std::memory_order_relaxed) % 4].store(caller, std::memory_order_relaxed);
  return true;
}

GW_COLD void note_worker(const void* iterator, uint32_t index, uint32_t pid) noexcept {
  WorkerSet* set = find_set(iterator);
  if (!set) set = &g_sets[g_next_set++ % kSets];
  if (index == 0) *set = WorkerSet{iterator, 0, {}};
  if (set->iterator != iterator || index >= WorkerSet::kMaxWorkers) return;
  set->workers[index] = WorkerProcess{pid, 0, 0, 0};
  if (set->count <= index) set->count = index + 1;
}

WatchWorkers::WatchWorkers(const void* iterator) noexcept
    : outer_(t_watch.workers), was_waiting_(t_is_waiting_for_workers) {
  t_watch.workers = nullptr;
  t_is_waiting_for_workers = iterator != nullptr;
  if (!walkable_python() || g_is_off.load(std::memory_order_relaxed)) return;
  t_watch.workers = find_set(iterator);
  t_watch.epoch = runtime::epoch();
  if (t_watch.left_ns != 0) return;
  draw_interval();
  // Not at the beginning of the first wait, which would be sampled too often.
  t_watch.left_ns = 1 + next_random() % t_watch.interval_ns;
}

WatchWorkers::~WatchWorkers() noexcept {
  t_watch.workers = outer_;
  t_is_waiting_for_workers = was_waiting_;
}

GW_COLD void sample_workers() noexcept {
  WorkerSet* set = t_watch.workers;
  if (!set || t_watch.epoch != runtime::epoch() || record::is_quiet() ||
      g_is_off.load(std::memory_order_relaxed)) {
    t_watch.workers = nullptr;
    return;
  }
  const base::ErrnoGuard keep_errno;
  const uint64_t now = base::ticks();
  uint32_t alive = 0;
  for (uint32_t i = 0; i < set->count; ++i) alive += set->workers[i].pid != 0;
  const uint32_t sampled = alive < kWorkersPerSample ? alive : kWorkersPerSample;
  const uint64_t ticks = sampled ? base::ticks_of_ns(t_watch.interval_ns) / sampled : 0;
  for (uint32_t done = 0, tried = 0; done < sampled && tried < set->count; ++tried) {
    WorkerProcess& worker = set->workers[t_watch.turn++ % set->count];
    if (!worker.pid) continue;
    sample(worker, now, ticks);
    ++done;
  }
  draw_interval();
}

}  // namespace gpuwatch::hooks::stacks
