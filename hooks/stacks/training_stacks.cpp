// SPDX-License-Identifier: Apache-2.0
#include "hooks/stacks/training_stacks.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <atomic>
#include <cerrno>

#include "hooks/core/evidence.h"
#include "hooks/core/operations.h"
#include "hooks/stacks/stall_stacks.h"
#include "libinject/base/clock.h"
#include "libinject/base/errno_guard.h"
#include "libinject/base/syscall.h"
#include "libinject/context/sampler.h"
#include "libinject/record/own_thread.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/fork_epoch.h"

namespace gpuwatch::hooks::stacks {
namespace {

// Random, so that no period of the job's is met again and again at the same place.
constexpr uint64_t kShortestNs = 30'000'000, kLongestNs = 90'000'000;
constexpr uint64_t kUnwatchedNs = 5'000'000'000;  // machine samples come every second while a job trains
constexpr uint32_t kMostFailures = 100;           // in a row: not a thread between two frames any more

constexpr uint64_t kPatienceNs =
    2'000'000'000;  // imports, and a look at a model in a shell, are over by then
constexpr uint64_t kPollNs = 250'000'000;
constexpr uint64_t kIdleShare = 200;  // of the CPU time of a core; a loop that waits for a disk uses more

enum Phase : uint32_t { kNone, kRunning, kEnding };

constinit std::atomic<uint32_t> g_phase{kNone};  // also a futex word
constinit std::atomic<uint32_t> g_tid{0};        // of the sampling thread; 0 before it has begun
constinit std::atomic<uint64_t> g_thread_state{0}, g_watched{0};  // the training thread's; ticks
constinit std::atomic<bool> g_is_off{false}, g_has_state{false}, g_has_fork_handlers{false};

// A thread that computes, and of which nothing else is known.
constinit std::atomic<const char*> g_framework{nullptr};  // null: none
constinit std::atomic<StartFunction> g_on_start{nullptr};
constinit std::atomic<uint32_t> g_computing_tid{0};
constinit bool g_is_begun = false;  // the recording is about it; of the sampling thread

void put_state(const record::SourceStatus& status) noexcept {
  if (!g_has_state.exchange(true, std::memory_order_relaxed)) record::put_source("training stacks", status);
}

uint64_t random_interval_ns(uint64_t& state) noexcept {  // xorshift64
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return kShortestNs + state % (kLongestNs - kShortestNs);
}

void sleep_ns(uint64_t ns) noexcept {
  const timespec limit{0, static_cast<long>(ns)};
  base::raw_syscall(SYS_futex, base::address(&g_phase), FUTEX_WAIT_PRIVATE, kRunning, base::address(&limit));
}

// It moves on within kShortNs, in its Python code or to other values that the same instruction works on; the
// new position is then in `at`. Looks without sleeping: a timer is 50 us late. A look that came late, because
// this thread had no CPU, says nothing.
bool moves_on(unwind::ForeignMemory& memory, const unwind::PythonRuntime& python, uint64_t thread_state,
              unwind::PythonPosition& at) noexcept {
  constexpr uint64_t kShortNs = 25'000, kLateNs = 50'000;  // on a busy machine one look may take 20 us
  const unwind::PythonPosition before = at;
  const uint64_t begin_ns = base::monotonic_ns();
  uint64_t elapsed_ns = 0;
  while (elapsed_ns < kShortNs) {
    if (!unwind::read_position(memory, python, thread_state, at)) return false;
    elapsed_ns = base::monotonic_ns() - begin_ns;
    if (at != before) return elapsed_ns < kLateNs;
  }
  return false;
}

// Whether the thread is among short operations that Python calls one after the other. In a longer call into C
// it stays where it was. Asked three times in a row: once, of operations of 0.1 ms one time in ten would show
// the end of one. PyTorch's smallest operations take 2 to 10 us, those that compute a model on a CPU mostly
// more. A thread that has to wait for a CPU seems to be in a long call.
bool is_interpreting(unwind::ForeignMemory& memory, const unwind::PythonRuntime& python,
                     uint64_t thread_state) noexcept {
  constexpr int kTimes = 3;
  unwind::PythonPosition at;
  if (!unwind::read_position(memory, python, thread_state, at)) return false;
  for (int time = 0; time < kTimes; ++time)
    if (!moves_on(memory, python, thread_state, at)) return false;
  return true;
}

bool walk_failed(const unwind::ForeignMemory& memory, uint32_t& failures) noexcept {
  if (memory.error() != EPERM && memory.error() != ENOSYS) return ++failures < kMostFailures;
  put_state({trace::SourceState::Unavailable,
             "not permitted to read this process's memory: no lines for the script's own work"});
  g_is_off.store(true, std::memory_order_relaxed);
  return false;
}

// Another thread that has the GIL, which training may wait for.
void sample_other(unwind::ForeignMemory& memory, const unwind::PythonRuntime& python, uint64_t thread_state,
                  uint64_t now, uint64_t interval_ns) noexcept {
  unwind::PythonStack stack;
  if (!unwind::capture_running(memory, python, thread_state, stack)) return;
  if (const uint32_t text = intern_stack(memory, python, stack))
    record::worker_stack(id(Op::python_another_thread), now, base::ticks_of_ns(interval_ns), text, 0);
}

// False where it never will be possible.
bool sample(uint32_t pid, uint64_t interval_ns, uint32_t& failures) noexcept {
  const uint64_t now = base::ticks();
  unwind::ForeignMemory memory(pid);
  const unwind::PythonRuntime& python = *walkable_python();
  const uint64_t thread_state = g_thread_state.load(std::memory_order_relaxed);
  const uint64_t other = unwind::other_gil_holder(memory, python, thread_state);  // before what takes time
  unwind::PythonStack stack;
  if (!unwind::capture_running(memory, python, thread_state, stack)) return walk_failed(memory, failures);
  failures = 0;
  // Before the stack is written down, which takes 50 us the first time: by then the thread may be elsewhere.
  const Op op =
      is_interpreting(memory, python, thread_state) ? Op::python_interpreting : Op::python_optimizer_step;
  const uint32_t text = intern_stack(memory, python, stack);
  if (!text) return true;
  put_state({trace::SourceState::On});
  record::worker_stack(id(op), now, base::ticks_of_ns(interval_ns), text, pid);
  if (other) sample_other(memory, python, other, now, interval_ns);
  return true;
}

bool is_unwatched() noexcept {
  return base::ticks() > g_watched.load(std::memory_order_relaxed) + base::ticks_of_ns(kUnwatchedNs);
}

// Whether the process used CPU time, looked at once in each period. Outlives the sampling thread, which every
// fork ends: a job that forks each second has long periods, too.
class Activity {
 public:
  void begin() noexcept {
    since_ns_ = base::monotonic_ns();
    cpu_ns_ = base::clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    is_busy_ = true;
  }
  bool is_over(uint64_t period_ns) noexcept {
    const uint64_t now_ns = base::monotonic_ns();
    if (now_ns - since_ns_ < period_ns) return false;
    const uint64_t cpu_ns = base::clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    is_busy_ = (cpu_ns - cpu_ns_) * kIdleShare >= now_ns - since_ns_;
    since_ns_ = now_ns;
    cpu_ns_ = cpu_ns;
    return true;
  }
  bool is_busy() const noexcept { return is_busy_; }

 private:
  uint64_t since_ns_ = 0, cpu_ns_ = 0;
  bool is_busy_ = true;
};
constinit Activity g_activity;  // of the sampling thread, and of whoever starts it

void begin_for(const char* framework) noexcept {
  if (!begin_recording("computing without a known loader")) return;
  g_is_begun = true;
  record::put_fact("computes_with", framework);
  record::put_fact("computing_thread", g_computing_tid.load(std::memory_order_relaxed));
  g_on_start.load(std::memory_order_relaxed)();
  record::name_own_thread();
}

// Before the recording. False: there is nothing to wait for.
bool wait_for_computing() noexcept {
  const char* framework = g_framework.load(std::memory_order_acquire);
  if (!framework || !record::is_dormant()) return false;
  if (g_activity.is_over(kPatienceNs) && g_activity.is_busy())
    begin_for(framework);
  else
    sleep_ns(kPollNs);
  return true;
}

// Whether there is a reason to sample the thread now; `goes_on` false: nor later.
bool is_to_be_sampled(bool& goes_on) noexcept {
  if (!g_is_begun) g_framework.store(nullptr, std::memory_order_release);  // something else began it
  if (!g_framework.load(std::memory_order_acquire)) return goes_on = !is_unwatched();
  context::maybe_sample(base::ticks());
  g_activity.is_over(kUnwatchedNs);
  return g_activity.is_busy();
}

void* run(void*) noexcept {
  g_tid.store(static_cast<uint32_t>(base::sys_gettid()), std::memory_order_release);
  record::name_own_thread();
  const auto pid = static_cast<uint32_t>(base::sys_getpid());
  uint64_t random = base::monotonic_ns() | 1;
  uint32_t failures = 0;
  bool goes_on = true;
  while (goes_on && g_phase.load(std::memory_order_acquire) == kRunning) {
    if (!record::is_recording()) {
      goes_on = wait_for_computing();
      continue;
    }
    const uint64_t interval_ns = random_interval_ns(random);
    sleep_ns(interval_ns);
    if (g_phase.load(std::memory_order_acquire) != kRunning || !record::is_recording()) break;
    if (is_to_be_sampled(goes_on)) goes_on = sample(pid, interval_ns, failures);
  }
  g_phase.store(kNone, std::memory_order_release);
  return nullptr;
}

// The kernel counts the thread as the process's until it has forgotten it. One that was just started first
// says which it is.
void wait_until_gone(bool was_running) noexcept {
  const auto pid = static_cast<uint32_t>(base::sys_getpid());
  const uint64_t until_ns = base::monotonic_ns() + kLongestEndMs * 1'000'000ull;
  const auto is_there = [&](uint32_t tid) {
    return tid ? base::raw_syscall(SYS_tgkill, pid, tid, 0) == 0 : was_running;
  };
  while (is_there(g_tid.load(std::memory_order_acquire)) && base::monotonic_ns() < until_ns)
    base::raw_syscall(SYS_sched_yield);
  g_tid.store(0, std::memory_order_relaxed);
}

void before_fork() noexcept {
  const base::ErrnoGuard keep_errno;
  uint32_t running = kRunning;
  const bool was_running = g_phase.compare_exchange_strong(running, kEnding);
  if (was_running) base::raw_syscall(SYS_futex, base::address(&g_phase), FUTEX_WAKE_PRIVATE, INT32_MAX);
  wait_until_gone(was_running);
}

bool start() noexcept {
  uint32_t none = kNone;
  if (!g_phase.compare_exchange_strong(none, kRunning)) return true;
  const base::ErrnoGuard keep_errno;
  const record::Quiet quiet;
  if (record::start_own_thread(run)) return true;
  g_phase.store(kNone, std::memory_order_release);
  return false;
}

// No machine sample of the training thread's starts it again.
void in_parent() noexcept {
  if (g_framework.load(std::memory_order_acquire) && !g_is_off.load(std::memory_order_relaxed)) start();
}

void in_child() noexcept {
  g_phase.store(kNone, std::memory_order_relaxed);
  g_tid.store(0, std::memory_order_relaxed);
  g_has_state.store(false, std::memory_order_relaxed);
  g_framework.store(nullptr, std::memory_order_relaxed);
  g_is_begun = false;
}

void start_with_fork_handlers() noexcept {
  if (!g_has_fork_handlers.exchange(true) && pthread_atfork(before_fork, in_parent, in_child) != 0)
    g_is_off.store(true, std::memory_order_relaxed);  // no thread that a fork cannot end
  if (!g_is_off.load(std::memory_order_relaxed)) start();
}

}  // namespace

GW_COLD void watch_training_thread(uint64_t now) noexcept {
  if (t_training_epoch != runtime::epoch() || g_is_off.load(std::memory_order_relaxed)) return;
  const uint64_t thread_state = python_thread_state();
  if (!thread_state) return;
  g_framework.store(nullptr, std::memory_order_release);  // its steps are seen
  g_thread_state.store(thread_state, std::memory_order_relaxed);
  g_watched.store(now, std::memory_order_relaxed);
  start_with_fork_handlers();
}

bool is_watching_computing_thread() noexcept {
  return g_framework.load(std::memory_order_relaxed) != nullptr;
}

bool may_watch_computing_thread() noexcept {
  return record::is_dormant() && !is_watching_computing_thread() && !g_is_off.load(std::memory_order_relaxed);
}

GW_COLD void watch_computing_thread(const char* framework, StartFunction on_start) noexcept {
  if (!may_watch_computing_thread()) return;
  const uint64_t thread_state = python_thread_state();
  if (!thread_state) return g_is_off.store(true, std::memory_order_relaxed);  // nor later
  g_thread_state.store(thread_state, std::memory_order_relaxed);
  g_computing_tid.store(static_cast<uint32_t>(base::sys_gettid()), std::memory_order_relaxed);
  g_on_start.store(on_start, std::memory_order_relaxed);
  g_activity.begin();
  g_framework.store(framework, std::memory_order_release);
  start_with_fork_handlers();
}

}  // namespace gpuwatch::hooks::stacks
