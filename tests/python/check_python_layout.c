// SPDX-License-Identifier: Apache-2.0
// Compiled with the headers of an interpreter (test_stacks.py): the offsets that
// libinject/unwind/python_layout.def gives for its version are those of its structures. Does not compile
// otherwise.
#define Py_BUILD_CORE 1
#include <Python.h>
#include <frameobject.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>
#include <stddef.h>
#if PY_VERSION_HEX >= 0x030b0000
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#endif

#define kAbsent 0xffff
#define SAME(offset, type, member) _Static_assert((offset) == offsetof(type, member), #member)

#if PY_VERSION_HEX >= 0x030b0000
#define CHECK_FRAME(thread_at, cframe_at, code_at, previous_at, instruction_at, owner_at) \
  SAME(thread_at, PyThreadState, cframe);                                                 \
  SAME(cframe_at, _PyCFrame, current_frame);                                              \
  SAME(code_at, _PyInterpreterFrame, f_code);                                             \
  SAME(previous_at, _PyInterpreterFrame, previous);                                       \
  SAME(instruction_at, _PyInterpreterFrame, prev_instr);                                  \
  SAME(owner_at, _PyInterpreterFrame, owner)
#define CHECK_CODE(name_at, lines_at, bytecode_at) \
  SAME(name_at, PyCodeObject, co_qualname);        \
  SAME(lines_at, PyCodeObject, co_linetable);      \
  SAME(bytecode_at, PyCodeObject, co_code_adaptive)
#define THREADS_HEAD threads.head
#else
#define CHECK_FRAME(thread_at, cframe_at, code_at, previous_at, instruction_at, owner_at) \
  SAME(thread_at, PyThreadState, frame);                                                  \
  SAME(code_at, PyFrameObject, f_code);                                                   \
  SAME(previous_at, PyFrameObject, f_back);                                               \
  SAME(instruction_at, PyFrameObject, f_lasti);                                           \
  _Static_assert(cframe_at == kAbsent && owner_at == kAbsent, "none")
#if PY_VERSION_HEX >= 0x030a0000
#define LINES co_linetable
#else
#define LINES co_lnotab
#endif
#define CHECK_CODE(name_at, lines_at, bytecode_at) \
  SAME(name_at, PyCodeObject, co_name);            \
  SAME(lines_at, PyCodeObject, LINES);             \
  _Static_assert(bytecode_at == kAbsent, "none")
#define THREADS_HEAD tstate_head
#endif

#define GW_PYTHON_LAYOUT(minor, ...) CHECK_##minor(__VA_ARGS__)
// clang-format off
#define CHECK(head_at, next_at, threads_at, next_thread_at, thread_at, cframe_at, frame_size, code_at, previous_at, \
              instruction_at, owner_at, filename_at, name_at, first_line_at, lines_at, bytecode_at, ascii_bytes,    \
              gil_holder_at)                                                                                        \
  enum { kIsChecked = 1 };                                                                                          \
  SAME(head_at, _PyRuntimeState, interpreters.head);                                                                \
  SAME(next_at, PyInterpreterState, next);                                                                          \
  SAME(threads_at, PyInterpreterState, THREADS_HEAD);                                                               \
  SAME(next_thread_at, PyThreadState, next);                                                                        \
  CHECK_FRAME(thread_at, cframe_at, code_at, previous_at, instruction_at, owner_at);                                \
  CHECK_CODE(name_at, lines_at, bytecode_at);                                                                       \
  SAME(filename_at, PyCodeObject, co_filename);                                                                     \
  SAME(first_line_at, PyCodeObject, co_firstlineno);                                                                \
  CHECK_GIL(gil_holder_at);                                                                                         \
  _Static_assert(sizeof(PyASCIIObject) == ascii_bytes, "PyASCIIObject");                                            \
  _Static_assert(frame_size > instruction_at && (owner_at == kAbsent || frame_size > owner_at), "size");
// clang-format on
#if PY_VERSION_HEX >= 0x030c0000
#define CHECK_GIL(holder_at)                             \
  SAME(holder_at, PyInterpreterState, _gil.last_holder); \
  SAME((holder_at) + 8, PyInterpreterState, _gil.locked)
#else
#define CHECK_GIL(holder_at)                               \
  SAME(holder_at, _PyRuntimeState, ceval.gil.last_holder); \
  SAME((holder_at) + 8, _PyRuntimeState, ceval.gil.locked)
#endif
#define CHECK_9(...)
#define CHECK_10(...)
#define CHECK_11(...)
#define CHECK_12(...)
#if PY_MINOR_VERSION == 9
#undef CHECK_9
#define CHECK_9 CHECK
#elif PY_MINOR_VERSION == 10
#undef CHECK_10
#define CHECK_10 CHECK
#elif PY_MINOR_VERSION == 11
#undef CHECK_11
#define CHECK_11 CHECK
#elif PY_MINOR_VERSION == 12
#undef CHECK_12
#define CHECK_12 CHECK
#endif
#include "libinject/unwind/python_layout.def"

// What holds for all, and is written as a number in the sources.
SAME(8, PyObject, ob_type);
SAME(16, PyVarObject, ob_size);
SAME(32, PyBytesObject, ob_sval);
SAME(16, PyASCIIObject, length);
SAME(32, PyASCIIObject, state);
_Static_assert(sizeof(PyCompactUnicodeObject) - sizeof(PyASCIIObject) == (PY_MINOR_VERSION >= 12 ? 16 : 24),
               "tail");
int is_checked = kIsChecked;  // the table has a row for this version
