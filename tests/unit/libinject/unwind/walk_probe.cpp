// SPDX-License-Identifier: Apache-2.0
// The walker as a library of its own, for an interpreter to call through ctypes
// (tests/python/test_stacks.py).
#include <time.h>
#include <unistd.h>

#include <cstring>

#include "libinject/unwind/python_stack.h"

using namespace gpuwatch::unwind;

namespace {

void write_plainly(const char* path, StackText& to) {
  to.add(path);
}

int copy_out(const StackText& text, char* to, size_t capacity) {
  if (text.size() + 1 > capacity) return -1;
  std::memcpy(to, text.c_str(), text.size() + 1);
  return static_cast<int>(text.size());
}

uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1000000000u + uint64_t(t.tv_nsec);
}

struct Target {
  ForeignMemory memory;
  PythonRuntime python;
  Target(uint32_t pid, int minor, uint64_t runtime, uint64_t code_type) : memory(pid) {
    python.runtime = runtime;
    python.code_type = code_type;
    is_known = find_layout(memory, minor, runtime, python.layout) == nullptr;
  }
  bool is_known;
};

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

// The frames of the calling thread; bytes of text, or negative.
EXPORT int walk_own(int minor, uint64_t runtime, uint64_t code_type, uint64_t thread, char* to,
                    size_t capacity) {
  Target target(uint32_t(getpid()), minor, runtime, code_type);
  PythonStack stack;
  StackText text;
  if (!target.is_known) return -2;
  if (!capture(target.memory, target.python, thread, stack)) return -3;
  if (!describe(target.memory, target.python, stack, write_plainly, text)) return -4;
  return copy_out(text, to, capacity);
}

// The frames of another process's main thread.
EXPORT int walk_process(uint32_t pid, int minor, uint64_t runtime, uint64_t code_type, char* to,
                        size_t capacity) {
  Target target(pid, minor, runtime, code_type);
  PythonStack stack;
  StackText text;
  if (!target.is_known) return -2;
  const uint64_t thread = main_thread_state(target.memory, target.python);
  if (!thread || !capture_running(target.memory, target.python, thread, stack)) return -3;
  if (!describe(target.memory, target.python, stack, write_plainly, text)) return -4;
  return copy_out(text, to, capacity);
}

EXPORT uint64_t main_thread(int minor, uint64_t runtime, uint64_t code_type) {
  Target target(uint32_t(getpid()), minor, runtime, code_type);
  return target.is_known ? main_thread_state(target.memory, target.python) : 0;
}

// Mean nanoseconds of capture() and of describe() on the calling thread.
EXPORT void measure(int minor, uint64_t runtime, uint64_t code_type, uint64_t thread, int rounds,
                    uint64_t* to) {
  Target target(uint32_t(getpid()), minor, runtime, code_type);
  PythonStack stack;
  const uint64_t t0 = now_ns();
  for (int i = 0; i < rounds; ++i) capture(target.memory, target.python, thread, stack);
  const uint64_t t1 = now_ns();
  for (int i = 0; i < rounds; ++i) {
    StackText text;
    target.memory.forget();
    describe(target.memory, target.python, stack, write_plainly, text);
  }
  to[0] = (t1 - t0) / uint64_t(rounds);
  to[1] = (now_ns() - t1) / uint64_t(rounds);
}
