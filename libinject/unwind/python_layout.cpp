// SPDX-License-Identifier: Apache-2.0
#include "libinject/unwind/python_layout.h"

#include <cstddef>
#include <cstring>

#include "libinject/unwind/foreign_memory.h"

namespace gpuwatch::unwind {

namespace {

constexpr uint16_t kAbsent = PythonLayout::kAbsent;
constexpr PythonLayout kLayouts[] = {
#define GW_PYTHON_LAYOUT(...) {__VA_ARGS__},
#include "libinject/unwind/python_layout.def"
#undef GW_PYTHON_LAYOUT
};

// _Py_DebugOffsets: 64-bit words at the very start of _PyRuntime, in groups of which each begins with its
// structure's size. The groups grew from 3.13 to 3.14.
struct GroupPlaces {
  size_t interpreter, thread, frame, code;  // index of the group's first word
  size_t gil_holder;                        // of this word
};
constexpr size_t kVersionWord = 1, kFreeThreadedWord = 2, kInterpretersHeadWord = 5;
constexpr GroupPlaces kGroups13 = {6, 19, 28, 34, 18};
constexpr GroupPlaces kGroups14 = {6, 22, 31, 39, 19};
constexpr size_t kWords = 50;

// Offsets beyond this are none: the largest (threads_head, gil_holder) are below 8000 in both.
constexpr uint64_t kMaxOffset = 0x7fff;

class DebugOffsets {
 public:
  explicit DebugOffsets(const uint64_t* words) noexcept : words_(words) {}
  uint16_t at(size_t word) noexcept {
    is_plausible_ &= words_[word] <= kMaxOffset;
    return static_cast<uint16_t>(words_[word]);
  }
  bool is_plausible() const noexcept { return is_plausible_; }

 private:
  const uint64_t* words_;
  bool is_plausible_ = true;
};

const char* read_debug_offsets(ForeignMemory& memory, int minor, uint64_t runtime,
                               PythonLayout& to) noexcept {
  uint64_t words[kWords];
  if (!memory.read(runtime, words, sizeof words)) return "this interpreter's memory cannot be read";
  const uint64_t version = words[kVersionWord] >> 16;  // PY_VERSION_HEX without micro and serial
  if (std::memcmp(words, "xdebugpy", 8) != 0 || version != (uint64_t{3} << 8 | static_cast<uint64_t>(minor)))
    return "this interpreter does not describe its structures";
  if (words[kFreeThreadedWord]) return "free-threaded Python is not supported";
  const GroupPlaces& group = minor == 13 ? kGroups13 : kGroups14;
  DebugOffsets offsets(words);
  to.minor = static_cast<uint16_t>(minor);
  to.interpreters_head = offsets.at(kInterpretersHeadWord);
  to.interpreter_next = offsets.at(group.interpreter + 2);
  to.threads_head = offsets.at(group.interpreter + 3);
  to.thread_next = offsets.at(group.thread + 2);
  to.thread_frame = offsets.at(group.thread + 4);
  to.cframe_frame = kAbsent;
  to.frame_previous = offsets.at(group.frame + 1);
  to.frame_code = offsets.at(group.frame + 2);
  to.frame_instruction = offsets.at(group.frame + 3);
  to.frame_owner = offsets.at(group.frame + 5);
  to.frame_size = static_cast<uint16_t>(to.frame_owner / 8 * 8 + 8);
  to.code_filename = offsets.at(group.code + 1);
  to.code_name = offsets.at(group.code + 3);
  to.code_lines = offsets.at(group.code + 4);
  to.code_first_line = offsets.at(group.code + 5);
  to.code_bytecode = offsets.at(group.code + 9);
  to.ascii_bytes = 40;  // as in 3.12
  to.gil_holder = offsets.at(group.gil_holder);
  return offsets.is_plausible() ? nullptr : "this interpreter does not describe its structures";
}

}  // namespace

const char* find_layout(ForeignMemory& memory, int minor, uint64_t runtime, PythonLayout& to) noexcept {
  for (const PythonLayout& layout : kLayouts) {
    if (layout.minor != minor) continue;
    to = layout;
    return nullptr;
  }
  if (minor == 13 || minor == 14) return read_debug_offsets(memory, minor, runtime, to);
  return "the structures of this Python version are not known";
}

}  // namespace gpuwatch::unwind
