// SPDX-License-Identifier: Apache-2.0
#include "hooks/stacks/stall_stacks.h"

#include <dlfcn.h>

#include <cstring>

#include "libinject/base/clock.h"
#include "libinject/base/errno_guard.h"
#include "libinject/base/syscall.h"
#include "libinject/runtime/config.h"
#include "libinject/unwind/native_stack.h"

namespace gpuwatch::hooks::stacks {

constinit std::atomic<uint64_t> g_stall_ticks{UINT64_MAX};
constinit std::atomic<bool> g_has_native_stacks{false};
GW_TLS uint32_t t_training_epoch = 0;
GW_TLS bool t_is_waiting_for_workers = false;

namespace {

constinit unwind::PythonRuntime g_python;
constinit ThreadState g_thread_state = nullptr;  // PyGILState_GetThisThreadState
constinit bool g_is_walkable = false;            // set under the GIL, before g_stall_ticks

// The part of a library's path that is the same on all machines is kept, whatever GPUWATCH_PATHS says: it
// says nothing of the user, and tells the frames of libraries from the user's.
void write_as_wanted(const char* path, unwind::StackText& to) noexcept {
  if (runtime::config().paths != runtime::PathStyle::kFull) {
    for (const char* library : {"/site-packages/", "/dist-packages/", "/lib/python3."}) {
      if (const char* at = std::strstr(path, library)) {
        to.add(at);
        return;
      }
    }
    if (path[0] == '<') {
      to.add(path);
      return;
    }
  }
  to.add(record::written_path(path).c_str());
}

// --- texts that are in the trace, by the hash of their stack

// High half: of the hash; low half: id of the text. Forked children inherit it, as they do the ids.
constexpr size_t kKnownStacks = 512;
constinit std::atomic<uint64_t> g_known[kKnownStacks];

// The id of the text that `describe` writes for a stack of this hash; described only if the hash is new. 0 if
// it cannot be.
template <class Text, class Describe>
uint32_t intern_once(uint64_t hash, Describe describe) noexcept {
  std::atomic<uint64_t>& known = g_known[hash % kKnownStacks];
  const uint64_t entry = known.load(std::memory_order_relaxed);
  const uint64_t high = hash & ~uint64_t{UINT32_MAX};
  if (entry && (entry & ~uint64_t{UINT32_MAX}) == high) return static_cast<uint32_t>(entry);
  Text text;
  if (!describe(text)) return 0;
  const uint32_t id = record::intern(text.c_str(), text.size());
  if (id) known.store(high | id, std::memory_order_relaxed);
  return id;
}

// --- what walks may cost

constexpr uint64_t kTimePerCost = 1000;        // a thousandth of the time
constexpr uint64_t kMostCreditNs = 5'000'000;  // what a quiet thread may spend at once, for some 100 walks
GW_TLS uint64_t t_credit_since = 0;            // ticks; credit grows from here

bool has_credit(uint64_t now, uint64_t stall) noexcept {
  const uint64_t most = base::ticks_of_ns(kMostCreditNs) * kTimePerCost;
  if (t_credit_since + most < now) t_credit_since = now - most;
  return now > t_credit_since || stall > base::ticks_of_ns(kStallNs) * kTimePerCost / 10;
}

}  // namespace

GW_COLD void use_python(const unwind::PythonRuntime& python, ThreadState thread_state) noexcept {
  g_python = python;
  g_thread_state = thread_state;
  g_is_walkable = true;
}

GW_COLD void start_measuring_stalls() noexcept {
  if (g_is_walkable) g_stall_ticks.store(base::ticks_of_ns(kStallNs), std::memory_order_release);
}

const unwind::PythonRuntime* walkable_python() noexcept {
  return g_is_walkable ? &g_python : nullptr;
}

uint64_t python_thread_state() noexcept {
  return g_is_walkable ? reinterpret_cast<uint64_t>(g_thread_state()) : 0;
}

GW_COLD void prepare_native_stacks() noexcept {
  const bool has_python = dlsym && dlsym(RTLD_DEFAULT, "Py_IsInitialized");
  if (has_python || g_has_native_stacks.load(std::memory_order_relaxed)) return;
  const record::Quiet quiet;
  const bool is_found = unwind::find_unwinder();
  if (!is_found) {
    return record::put_source("stacks",
                              {trace::SourceState::Absent,
                               "no file and line of stalls: no Python and no libgcc_s in this process"});
  }
  record::put_source("stacks", {trace::SourceState::On});
  g_has_native_stacks.store(true, std::memory_order_relaxed);
  g_stall_ticks.store(base::ticks_of_ns(kStallNs), std::memory_order_release);
}

GW_COLD uint32_t intern_stack(unwind::ForeignMemory& memory, const unwind::PythonRuntime& python,
                              const unwind::PythonStack& stack) noexcept {
  return intern_once<unwind::StackText>(stack.hash, [&](unwind::StackText& text) {
    return unwind::describe(memory, python, stack, write_as_wanted, text);
  });
}

namespace {

uint32_t python_stack_now() noexcept {
  const uint64_t thread = python_thread_state();
  if (!thread) return 0;
  unwind::ForeignMemory memory(static_cast<uint32_t>(base::sys_getpid()));
  unwind::PythonStack stack;
  const bool is_captured = unwind::capture(memory, g_python, thread, stack);
  return is_captured ? intern_stack(memory, g_python, stack) : 0;
}

uint32_t native_stack_now() noexcept {
  const record::Quiet quiet;  // the unwinder's own waits and mappings are not the job's
  unwind::NativeStack stack;
  if (!unwind::capture(stack)) return 0;
  return intern_once<unwind::NativeText>(stack.hash, [&](unwind::NativeText& text) {
    unwind::describe(stack, text);
    return true;
  });
}

}  // namespace

GW_COLD void record_stack(const record::Scope& scope) noexcept {
  const uint64_t begin = base::ticks();
  if (t_training_epoch != runtime::epoch() || record::is_quiet()) return;
  if (!has_credit(begin, begin - scope.begin)) return;
  const base::ErrnoGuard keep_errno;
  if (const uint32_t text = g_is_walkable ? python_stack_now() : native_stack_now())
    record::stack(scope.op, scope.begin, text);
  t_credit_since += (base::ticks() - begin) * kTimePerCost;
}

}  // namespace gpuwatch::hooks::stacks
