// SPDX-License-Identifier: Apache-2.0
// The Python frames of a thread, read from outside the interpreter: no GIL, no call into Python, no pointer
// followed but through ForeignMemory. Works on the calling thread (whose frames cannot change while it is in
// here) and on the main thread of another process, which runs on meanwhile.
//
// Two steps, because most stalls repeat: capture() finds the frames (5 us) and gives them a hash; describe()
// decodes names and line numbers (30 to 80 us) for a hash that is new. Bounded in frames, name lengths and
// line table. Thread safety: any thread, each its own objects. Signal safety: yes. Errors: false, and why in
// memory.error() or, where that is 0, because what was read is no Python frame.
#pragma once

#include <cstddef>
#include <cstdint>

#include "libinject/base/text.h"
#include "libinject/unwind/foreign_memory.h"
#include "libinject/unwind/python_layout.h"

namespace gpuwatch::unwind {

// An interpreter in some process.
struct PythonRuntime {
  PythonLayout layout;
  uint64_t runtime = 0;    // address of _PyRuntime
  uint64_t code_type = 0;  // address of PyCode_Type: what every frame's code must be
};

struct PythonFrame {
  uint64_t frame = 0;
  uint64_t code = 0;
  uint64_t instruction = 0;   // pointer, or index up to Python 3.10
  bool is_generator = false;  // or a coroutine; not known up to Python 3.10
  bool operator==(const PythonFrame&) const = default;
};

struct PythonStack {
  static constexpr uint32_t kMaxFrames = 24;
  uint32_t count = 0;
  PythonFrame frames[kMaxFrames];  // innermost first
  uint64_t hash = 0;               // of code objects and instructions; equal: the same text
};

// The frames of the thread whose PyThreadState is at `thread_state`; true with at least one.
bool capture(ForeignMemory& memory, const PythonRuntime& python, uint64_t thread_state,
             PythonStack& to) noexcept;

// The same of a thread that runs meanwhile: captured twice, and what changed in between is left out, so that
// of a function that returned too quickly its caller is told.
bool capture_running(ForeignMemory& memory, const PythonRuntime& python, uint64_t thread_state,
                     PythonStack& to) noexcept;

// What changes when a thread executes Python, and does not while it is in one call into C: its innermost
// frame, that frame's instruction and, where one instruction is executed again and again, the values it works
// on.
struct PythonPosition {
  static constexpr size_t kBytes = 256;  // of the frame: its members, its first locals and its stack
  uint64_t frame = 0;
  uint8_t bytes[kBytes] = {};
  bool operator==(const PythonPosition&) const = default;
};
bool read_position(ForeignMemory& memory, const PythonRuntime& python, uint64_t thread_state,
                   PythonPosition& to) noexcept;

// PyThreadState of the main interpreter's first thread, 0 if it cannot be found.
uint64_t main_thread_state(ForeignMemory& memory, const PythonRuntime& python) noexcept;

// PyThreadState of the main interpreter's thread that holds the GIL, if it is another one than `known`; else
// 0. A thread that executes Python holds it, also where it waits for a core.
uint64_t other_gil_holder(ForeignMemory& memory, const PythonRuntime& python, uint64_t known) noexcept;

inline constexpr uint32_t kDescribedFrames = 16;
inline constexpr size_t kTextBytes = 4000;  // the longest text that a trace keeps
using StackText = base::Text<kTextBytes>;
// Writes a path as the user wants paths written.
using PathWriter = void (*)(const char* path, StackText& to);

// A line for each frame, innermost first: "file:line function", of a generator "file:line function*".
bool describe(ForeignMemory& memory, const PythonRuntime& python, const PythonStack& stack,
              PathWriter write_path, StackText& to) noexcept;

}  // namespace gpuwatch::unwind
