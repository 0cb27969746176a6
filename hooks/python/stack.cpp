// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/stack.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

#include "hooks/python/object.h"
#include "libinject/base/clock.h"
#include "libinject/base/errno_guard.h"
#include "libinject/base/syscall.h"
#include "libinject/runtime/config.h"
#include "libinject/unwind/native_stack.h"

namespace gpuwatch::hooks::python {

constinit std::atomic<uint64_t> g_stall_ticks{UINT64_MAX};
constinit std::atomic<bool> g_has_native_stacks{false};
GW_TLS uint32_t t_training_epoch = 0;

namespace {

constinit unwind::PythonRuntime g_python;
constinit bool g_is_walkable = false;  // set under the GIL, before g_stall_ticks
constinit bool g_is_prepared = false;

// --- proof: a first walk must say what the interpreter itself says

constexpr int kProvenFrames = 3;
constexpr char kWithoutStacks[] = "no file and line of stalls";

void write_plainly(const char* path, unwind::StackText& to) noexcept {
  to.add(path);
}
// Of a library's path the part that every machine has stays, whatever GPUWATCH_PATHS says: it tells nothing
// of the user, and without it nobody could tell his frames from the library's.
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

// The innermost frames in the interpreter's own words.
int describe_by_api(unwind::StackText& to) noexcept {
  Ref frame = Ref::of_borrowed(g_api.PyEval_GetFrame());
  int count = 0;
  for (; frame && !frame.is_none() && count < kProvenFrames; ++count) {
    const Ref code = attribute(frame.get(), "f_code");
    if (!code) break;
    const Ref file = attribute(code.get(), "co_filename");
    Ref name = attribute(code.get(), "co_qualname");
    if (!name) name = attribute(code.get(), "co_name");
    if (!text(file.get()) || !text(name.get())) break;
    if (count) to.add('\n');
    to.add(text(file.get())).add(':');
    to.add(static_cast<uint64_t>(long_attribute(frame.get(), "f_lineno", 0))).add(' ');
    to.add(text(name.get()));
    frame = attribute(frame.get(), "f_back");
  }
  return count;
}

const char* prove(unwind::ForeignMemory& memory) noexcept {
  void* const thread = g_api.PyGILState_GetThisThreadState();
  unwind::PythonStack stack;
  unwind::StackText walked, told;
  const int count = describe_by_api(told);
  if (!unwind::capture(memory, g_python, reinterpret_cast<uint64_t>(thread), stack) ||
      !unwind::describe(memory, g_python, stack, write_plainly, walked)) {
    return memory.error() == EPERM || memory.error() == ENOSYS
               ? "process_vm_readv is not permitted; allow ptrace (docker run --cap-add SYS_PTRACE)"
               : "this Python's frames could not be read";
  }
  const size_t size = told.size();
  const bool is_same = count > 0 && walked.size() >= size &&
                       std::memcmp(walked.c_str(), told.c_str(), size) == 0 &&
                       (walked.c_str()[size] == 0 || walked.c_str()[size] == '\n');
  return is_same ? nullptr : "this Python's frames have an unknown layout";
}

const char* find_python() noexcept {
  void* const runtime = dlsym(RTLD_DEFAULT, "_PyRuntime");
  void* const code_type = dlsym(RTLD_DEFAULT, "PyCode_Type");
  if (!runtime || !code_type) return "this Python hides its structures";
  g_python.runtime = reinterpret_cast<uint64_t>(runtime);
  g_python.code_type = reinterpret_cast<uint64_t>(code_type);
  unwind::ForeignMemory memory(static_cast<uint32_t>(base::sys_getpid()));
  const int minor = static_cast<int>(std::strtol(g_api.Py_GetVersion() + 2, nullptr, 10));
  if (const char* why = unwind::find_layout(memory, minor, g_python.runtime, g_python.layout)) return why;
  return prove(memory);
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

GW_COLD void prepare_stacks() noexcept {
  if (g_is_prepared) return;
  g_is_prepared = true;
  const record::Quiet quiet;
  const ErrorGuard guard;
  const char* why_not = find_python();
  g_is_walkable = why_not == nullptr;
  if (g_is_walkable) {
    record::put_source("stacks", {trace::SourceState::On});
  } else {
    base::Text<256> text;
    text.add(kWithoutStacks).add(": ").add(why_not);
    record::put_source("stacks", {trace::SourceState::Unavailable, text.c_str()});
  }
  if (g_is_walkable) g_stall_ticks.store(base::ticks_of_ns(kStallNs), std::memory_order_release);
}

const unwind::PythonRuntime* walkable_python() noexcept {
  return g_is_walkable ? &g_python : nullptr;
}

GW_COLD void prepare_native_stacks() noexcept {
  const bool has_python = dlsym && dlsym(RTLD_DEFAULT, "Py_IsInitialized");
  if (has_python || g_has_native_stacks.load(std::memory_order_relaxed)) return;
  const record::Quiet quiet;
  const bool is_found = unwind::find_unwinder();
  if (!is_found) {
    base::Text<128> text;
    text.add(kWithoutStacks).add(": no Python and no libgcc_s in this process");
    return record::put_source("stacks", {trace::SourceState::Absent, text.c_str()});
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
  void* const thread = g_api.PyGILState_GetThisThreadState();
  if (!thread) return 0;
  unwind::ForeignMemory memory(static_cast<uint32_t>(base::sys_getpid()));
  unwind::PythonStack stack;
  const bool is_captured = unwind::capture(memory, g_python, reinterpret_cast<uint64_t>(thread), stack);
  return is_captured ? intern_stack(memory, g_python, stack) : 0;
}

uint32_t native_stack_now() noexcept {
  const record::Quiet quiet;  // the unwinder's own waits and mappings are nobody's stall
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

}  // namespace gpuwatch::hooks::python
