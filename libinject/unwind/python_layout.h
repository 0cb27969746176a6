// SPDX-License-Identifier: Apache-2.0
// Where CPython keeps what a walk over its frames reads: private structures that differ between minor
// versions. Nothing here trusts a layout: a walk checks every object it meets, and the Python source compares
// a first walk with the interpreter's own account before it uses the second
// (hooks/python/interpreter/frame_check.cpp). Thread and signal safety: yes.
#pragma once

#include <cstdint>

namespace gpuwatch::unwind {

class ForeignMemory;

struct PythonLayout {
  static constexpr uint16_t kAbsent = 0xffff;
  uint16_t minor = 0;              // of Python 3.minor
  uint16_t interpreters_head = 0;  // in _PyRuntime
  uint16_t interpreter_next = 0;
  uint16_t threads_head = 0;  // in an interpreter
  uint16_t thread_next = 0;
  uint16_t thread_frame = 0;
  uint16_t cframe_frame = 0;
  uint16_t frame_size = 0;  // what a walk copies of a frame: up to its last member of interest
  uint16_t frame_code = 0;
  uint16_t frame_previous = 0;
  uint16_t frame_instruction = 0;
  uint16_t frame_owner = 0;
  uint16_t code_filename = 0;
  uint16_t code_name = 0;
  uint16_t code_first_line = 0;
  uint16_t code_lines = 0;
  uint16_t code_bytecode = 0;
  uint16_t ascii_bytes = 0;  // sizeof(PyASCIIObject)
  uint16_t gil_holder = 0;   // up to 3.11 in _PyRuntime, then in an interpreter; whether it is held follows
};

// The layout of Python 3.`minor`, from the table or, from 3.13 on, from the interpreter at `runtime` (the
// address of _PyRuntime). Null on success, else why there is none; constant text.
const char* find_layout(ForeignMemory& memory, int minor, uint64_t runtime, PythonLayout& to) noexcept;

}  // namespace gpuwatch::unwind
