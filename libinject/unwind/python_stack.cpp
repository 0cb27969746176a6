// SPDX-License-Identifier: Apache-2.0
#include "libinject/unwind/python_stack.h"

#include <cstring>

#include "libinject/base/compiler.h"
#include "libinject/unwind/python_lines.h"

namespace gpuwatch::unwind {

namespace {

constexpr uint64_t kObjectType = 8;  // PyObject.ob_type
constexpr uint64_t kPageBytes = 4096;
constexpr size_t kMaxFrameBytes = 128;
constexpr size_t kMaxCodeBytes = 160;         // up to co_linetable
constexpr uint8_t kOwnedByGenerator = 1;      // frame owners, 3.11 and newer
constexpr uint8_t kFirstInterpretersOwn = 3;  // from here on they belong to the C stack, 3.12 and newer
constexpr uint32_t kMaxSkipped = 64;          // of those between two Python frames
constexpr uint32_t kMaxInterpreters = 64, kMaxThreads = 4096;  // of linked lists

template <class T>
T member(const uint8_t* object, uint16_t offset) noexcept {
  T value;
  std::memcpy(&value, object + offset, sizeof value);
  return value;
}

// From 3.14 on the low bits of a reference say who counts it.
uint64_t untagged(uint64_t reference) noexcept {
  return reference & ~uint64_t{3};
}

uint64_t mixed(uint64_t hash, uint64_t word) noexcept {
  return (hash ^ word) * 0x9e3779b97f4a7c15u ^ (hash >> 29);
}

uint64_t innermost_frame(ForeignMemory& memory, const PythonLayout& layout, uint64_t thread_state) noexcept {
  const auto frame = memory.value<uint64_t>(thread_state + layout.thread_frame);
  if (layout.cframe_frame == PythonLayout::kAbsent || !frame) return frame;
  return memory.value<uint64_t>(frame + layout.cframe_frame);
}

bool is_interpreters_own(const PythonLayout& layout, const uint8_t* frame) noexcept {
  return layout.minor >= 12 && frame[layout.frame_owner] >= kFirstInterpretersOwn;
}

bool is_generators(const PythonLayout& layout, const uint8_t* frame) noexcept {
  return layout.minor >= 11 && frame[layout.frame_owner] == kOwnedByGenerator;
}

bool walk_frames(ForeignMemory& memory, const PythonLayout& layout, uint64_t thread_state,
                 PythonStack& to) noexcept {
  if (layout.frame_size > kMaxFrameBytes) return false;
  uint8_t bytes[kMaxFrameBytes];
  uint32_t skipped = 0;
  to.count = 0;
  for (uint64_t at = innermost_frame(memory, layout, thread_state); at;) {
    if (!memory.read(at, bytes, layout.frame_size)) return false;
    if (is_interpreters_own(layout, bytes)) {
      if (++skipped > kMaxSkipped) return false;
    } else {
      const uint64_t instruction =
          layout.minor >= 11
              ? member<uint64_t>(bytes, layout.frame_instruction)
              : static_cast<uint64_t>(static_cast<int64_t>(member<int32_t>(bytes, layout.frame_instruction)));
      to.frames[to.count++] = {at, untagged(member<uint64_t>(bytes, layout.frame_code)), instruction,
                               is_generators(layout, bytes)};
      if (to.count == PythonStack::kMaxFrames) break;
    }
    at = member<uint64_t>(bytes, layout.frame_previous);
  }
  return to.count > 0 && !memory.has_failed();
}

// Frames that the interpreter puts between others (around __init__, from 3.12 on) have code without a line,
// of which file and function are the same text.
bool is_interpreters_own_code(const PythonLayout& layout, const uint8_t* code) noexcept {
  return member<int32_t>(code, layout.code_first_line) == 0 &&
         member<uint64_t>(code, layout.code_filename) == member<uint64_t>(code, layout.code_name);
}

// A generator has a caller while it runs. One without gave its value back while the frames were read, and
// those outside of it were missed. Up to 3.10 the code's flags, which lie before the first line, say what it
// is.
bool is_out_of_date(const PythonLayout& layout, const PythonFrame& outermost, const uint8_t* code) noexcept {
  constexpr uint32_t kGenerator = 0x20, kCoroutine = 0x80, kAsyncGenerator = 0x200;  // CPython: code.h
  if (layout.minor >= 11) return outermost.is_generator;
  const auto flags = member<uint32_t>(code, static_cast<uint16_t>(layout.code_first_line - sizeof(uint32_t)));
  return flags & (kGenerator | kCoroutine | kAsyncGenerator);
}

// Every frame's code is one, and the hash says which: by its names as well, in case another was made at
// the same address.
bool check_codes(ForeignMemory& memory, const PythonRuntime& python, PythonStack& stack) noexcept {
  const PythonLayout& layout = python.layout;
  const size_t size = layout.code_lines + sizeof(uint64_t);
  if (size > kMaxCodeBytes) return false;
  uint64_t addresses[PythonStack::kMaxFrames];
  uint8_t codes[PythonStack::kMaxFrames * kMaxCodeBytes];
  for (uint32_t i = 0; i < stack.count; ++i) addresses[i] = stack.frames[i].code;
  if (!memory.read_all(addresses, stack.count, codes, size)) return false;
  stack.hash = memory.pid();
  uint32_t kept = 0;
  for (uint32_t i = 0; i < stack.count; ++i) {
    const uint8_t* code = codes + i * size;
    if (member<uint64_t>(code, kObjectType) != python.code_type) return false;
    if (is_interpreters_own_code(layout, code)) continue;
    stack.frames[kept++] = stack.frames[i];
    stack.hash = mixed(stack.hash, stack.frames[i].code);
    stack.hash = mixed(stack.hash, stack.frames[i].instruction);
    stack.hash = mixed(stack.hash, member<uint64_t>(code, layout.code_filename));
    stack.hash = mixed(stack.hash, member<uint64_t>(code, layout.code_name));
    stack.hash = mixed(stack.hash, member<uint64_t>(code, layout.code_lines));
  }
  const uint32_t outermost = stack.count - 1;
  if (stack.count < PythonStack::kMaxFrames &&
      is_out_of_date(layout, stack.frames[outermost], codes + outermost * size))
    return false;
  stack.count = kept;
  return kept > 0;
}

// The outer frames that both have, innermost first, as they are in `first`.
void keep_common(PythonStack& first, const PythonStack& second) noexcept {
  uint32_t i = first.count, j = second.count;
  while (i > 0 && j > 0 && first.frames[i - 1].frame == second.frames[j - 1].frame &&
         first.frames[i - 1].code == second.frames[j - 1].code) {
    --i;
    --j;
  }
  first.count -= i;
  std::memmove(first.frames, first.frames + i, first.count * sizeof first.frames[0]);
}

// --- text

constexpr uint16_t kTextLength = 16, kTextState = 32;  // PyASCIIObject
constexpr uint16_t kTextTail = 24;    // sizeof(PyCompactUnicodeObject) - sizeof(PyASCIIObject)
constexpr uint16_t kTextTail12 = 16;  // from 3.12 on
constexpr uint64_t kMaxCharacters = 512;
using Name = base::Text<1024>;

void add_character(uint32_t c, Name& to) noexcept {
  if (c < 0x20 || c == 0x7f || (c >= 0xd800 && c < 0xe000) || c > 0x10ffff) c = '?';
  char bytes[4];
  size_t count = 1;
  if (c < 0x80) {
    bytes[0] = static_cast<char>(c);
  } else {
    count = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = count - 1; i > 0; --i, c >>= 6) bytes[i] = static_cast<char>(0x80 | (c & 0x3f));
    constexpr uint8_t kLeads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    bytes[0] = static_cast<char>(kLeads[count] | c);
  }
  if (to.size() + count < 1024) to.add(bytes, count);  // never half a character
}

// A str object of the compact kind, which names and file names are.
bool read_text(ForeignMemory& memory, const PythonLayout& layout, uint64_t object, Name& to) noexcept {
  const auto state = memory.value<uint32_t>(object + kTextState);
  auto length = memory.value<uint64_t>(object + kTextLength);
  const uint32_t kind = (state >> 2) & 7;
  const bool is_compact = state & 32, is_ascii = state & 64;
  if (memory.has_failed() || !is_compact || (kind != 1 && kind != 2 && kind != 4)) return false;
  uint64_t data = object + layout.ascii_bytes;
  if (!is_ascii) data += layout.minor >= 12 ? kTextTail12 : kTextTail;
  if (length > kMaxCharacters) {  // of a path the end tells more
    data += (length - kMaxCharacters) * kind;
    length = kMaxCharacters;
  }
  for (uint64_t i = 0; i < length; ++i) {
    uint32_t c = 0;
    if (!memory.read(data + i * kind, &c, kind)) return false;
    add_character(c, to);
  }
  return true;
}

bool describe_frame(ForeignMemory& memory, const PythonRuntime& python, const PythonFrame& frame,
                    PathWriter write_path, StackText& to) noexcept {
  const PythonLayout& layout = python.layout;
  uint8_t code[kMaxCodeBytes];
  if (!memory.read(frame.code, code, layout.code_lines + sizeof(uint64_t))) return false;
  int64_t offset = static_cast<int64_t>(frame.instruction);
  if (layout.minor >= 11) offset -= static_cast<int64_t>(frame.code + layout.code_bytecode);
  if (layout.minor == 10) offset *= 2;
  const int32_t line = line_of(memory, layout.minor, member<uint64_t>(code, layout.code_lines),
                               member<int32_t>(code, layout.code_first_line), offset);
  Name file, function;
  if (!read_text(memory, layout, member<uint64_t>(code, layout.code_filename), file) ||
      !read_text(memory, layout, member<uint64_t>(code, layout.code_name), function)) {
    return false;
  }
  // A frame is told as a whole or not at all. 40: separators, digits, and a hash in place of a short path.
  if (to.size() + file.size() + function.size() + 40 > kTextBytes) return false;
  if (to.size()) to.add('\n');
  write_path(file.c_str(), to);
  to.add(':').add(static_cast<uint64_t>(line > 0 ? line : 0)).add(' ').add(function.c_str());
  if (frame.is_generator) to.add('*');
  return true;
}

}  // namespace

GW_COLD bool capture(ForeignMemory& memory, const PythonRuntime& python, uint64_t thread_state,
                     PythonStack& to) noexcept {
  memory.forget();
  return walk_frames(memory, python.layout, thread_state, to) && check_codes(memory, python, to);
}

GW_COLD bool capture_running(ForeignMemory& memory, const PythonRuntime& python, uint64_t thread_state,
                             PythonStack& to) noexcept {
  // Generators within generators are captured whole one time in five. Who gives up after three sees less of
  // such code than of the rest: of a loop that spent 84% in json's encoder 40% of the samples were lost.
  constexpr int kMostAttempts = 24, kEnough = 3;
  PythonStack again, common;
  for (int attempt = 1; attempt <= kMostAttempts; ++attempt) {
    if (!capture(memory, python, thread_state, to) || !capture(memory, python, thread_state, again)) continue;
    const uint32_t before = to.count;
    keep_common(to, again);
    if (to.count == before) return true;
    if (to.count > common.count) common = to;
    if (attempt >= kEnough && common.count > 0) break;
  }
  to = common;
  return to.count > 0 && check_codes(memory, python, to);
}

GW_COLD bool read_position(ForeignMemory& memory, const PythonRuntime& python, uint64_t thread_state,
                           PythonPosition& to) noexcept {
  memory.forget();
  to.frame = innermost_frame(memory, python.layout, thread_state);
  // The last frame of a block of Python's stack may have fewer values, and nothing mapped behind the block.
  const uint64_t members_end = to.frame + python.layout.frame_size;
  const uint64_t to_page_end = (members_end + kPageBytes - 1) / kPageBytes * kPageBytes - to.frame;
  const size_t bytes = to_page_end < PythonPosition::kBytes ? to_page_end : PythonPosition::kBytes;
  if (to.frame == 0 || !memory.read(to.frame, to.bytes, bytes)) return false;
  // A generator's frame lies in an object of its own, beyond whose end are those of other threads.
  const size_t own = python.layout.frame_size;
  if (is_generators(python.layout, to.bytes)) std::memset(to.bytes + own, 0, sizeof to.bytes - own);
  return true;
}

namespace {

// Interpreters are listed newest first.
uint64_t main_interpreter(ForeignMemory& memory, const PythonRuntime& python) noexcept {
  const PythonLayout& layout = python.layout;
  memory.forget();
  auto interpreter = memory.value<uint64_t>(python.runtime + layout.interpreters_head);
  for (uint32_t i = 0; interpreter && i < kMaxInterpreters; ++i) {
    const auto next = memory.value<uint64_t>(interpreter + layout.interpreter_next);
    if (!next) break;
    interpreter = next;
  }
  return interpreter;
}

}  // namespace

uint64_t main_thread_state(ForeignMemory& memory, const PythonRuntime& python) noexcept {
  const PythonLayout& layout = python.layout;
  const uint64_t interpreter = main_interpreter(memory, python);
  // Newest first, too; a thread that fork() left over is the only one.
  auto thread = interpreter ? memory.value<uint64_t>(interpreter + layout.threads_head) : 0;
  for (uint32_t i = 0; thread && i < kMaxThreads; ++i) {
    const auto next = memory.value<uint64_t>(thread + layout.thread_next);
    if (!next) break;
    thread = next;
  }
  return memory.has_failed() ? 0 : thread;
}

GW_COLD uint64_t other_gil_holder(ForeignMemory& memory, const PythonRuntime& python,
                                  uint64_t known) noexcept {
  constexpr uint16_t kLastInRuntime = 11;
  struct Gil {
    uint64_t last_holder;
    int locked;
  };
  const PythonLayout& layout = python.layout;
  const uint64_t interpreter = main_interpreter(memory, python);
  const auto gil =
      memory.value<Gil>((layout.minor <= kLastInRuntime ? python.runtime : interpreter) + layout.gil_holder);
  if (!interpreter || gil.locked != 1 || gil.last_holder == known) return 0;
  // Whoever it says must be one of the threads: the place is another build's otherwise.
  auto thread = memory.value<uint64_t>(interpreter + layout.threads_head);
  for (uint32_t i = 0; thread && i < kMaxThreads; ++i) {
    if (thread == gil.last_holder) return thread;
    thread = memory.value<uint64_t>(thread + layout.thread_next);
  }
  return 0;
}

GW_COLD bool describe(ForeignMemory& memory, const PythonRuntime& python, const PythonStack& stack,
                      PathWriter write_path, StackText& to) noexcept {
  const uint32_t count = stack.count < kDescribedFrames ? stack.count : kDescribedFrames;
  for (uint32_t i = 0; i < count; ++i) {
    if (!describe_frame(memory, python, stack.frames[i], write_path, to)) return i > 0;
  }
  return count > 0;
}

}  // namespace gpuwatch::unwind
