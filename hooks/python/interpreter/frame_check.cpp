// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/interpreter/frame_check.h"

#include <dlfcn.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "hooks/python/interpreter/object.h"
#include "hooks/stacks/stall_stacks.h"
#include "libinject/base/compiler.h"
#include "libinject/base/syscall.h"
#include "libinject/base/text.h"
#include "libinject/record/recorder.h"
#include "libinject/unwind/python_stack.h"

namespace gpuwatch::hooks::python {

namespace {

constinit bool g_is_checked = false;        // under the GIL
constinit const char* g_why_not = nullptr;  // null: they can be read

constexpr int kProvenFrames = 3;

void write_plainly(const char* path, unwind::StackText& to) noexcept {
  to.add(path);
}

// As a walk tells it, from 3.11 on.
bool is_generator(PyObject* code, int minor) noexcept {
  constexpr long kGenerator = 0x20, kCoroutine = 0x80, kIterableCoroutine = 0x100, kAsyncGenerator = 0x200;
  constexpr long kAny = kGenerator | kCoroutine | kIterableCoroutine | kAsyncGenerator;
  return minor >= 11 && (long_attribute(code, "co_flags", 0) & kAny);
}

// The innermost frames in the interpreter's own words.
int describe_by_api(int minor, unwind::StackText& to) noexcept {
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
    if (is_generator(code.get(), minor)) to.add('*');
    frame = attribute(frame.get(), "f_back");
  }
  return count;
}

const char* prove(unwind::ForeignMemory& memory, const unwind::PythonRuntime& python) noexcept {
  void* const thread = g_api.PyGILState_GetThisThreadState();
  unwind::PythonStack stack;
  unwind::StackText walked, told;
  const int count = describe_by_api(python.layout.minor, told);
  if (!unwind::capture(memory, python, reinterpret_cast<uint64_t>(thread), stack) ||
      !unwind::describe(memory, python, stack, write_plainly, walked)) {
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

const char* find_python(unwind::PythonRuntime& python) noexcept {
  void* const runtime = dlsym(RTLD_DEFAULT, "_PyRuntime");
  void* const code_type = dlsym(RTLD_DEFAULT, "PyCode_Type");
  if (!runtime || !code_type) return "this Python hides its structures";
  python.runtime = reinterpret_cast<uint64_t>(runtime);
  python.code_type = reinterpret_cast<uint64_t>(code_type);
  unwind::ForeignMemory memory(static_cast<uint32_t>(base::sys_getpid()));
  const int minor = static_cast<int>(std::strtol(g_api.Py_GetVersion() + 2, nullptr, 10));
  if (const char* why = unwind::find_layout(memory, minor, python.runtime, python.layout)) return why;
  return prove(memory, python);
}

}  // namespace

GW_COLD void check_frames() noexcept {
  if (g_is_checked) return;
  g_is_checked = true;
  const record::Quiet quiet;
  const ErrorGuard guard;
  unwind::PythonRuntime python;
  g_why_not = find_python(python);
  if (!g_why_not) stacks::use_python(python, g_api.PyGILState_GetThisThreadState);
}

void put_frames_state() noexcept {
  if (!g_is_checked) return;
  if (!g_why_not) {
    stacks::start_measuring_stalls();
    return record::put_source("stacks", {trace::SourceState::On});
  }
  base::Text<256> text;
  text.add("no file and line of stalls: ").add(g_why_not);
  record::put_source("stacks", {trace::SourceState::Unavailable, text.c_str()});
}

}  // namespace gpuwatch::hooks::python
