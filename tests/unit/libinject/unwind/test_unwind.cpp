// SPDX-License-Identifier: Apache-2.0
// The walker on memory that is no interpreter's: every pointer wild, every list a ring, every length
// too long. It must end, within bounds, and say no (or text without meaning), never crash; the
// sanitizers look on.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <vector>

#include "libinject/unwind/module_shift.h"
#include "libinject/unwind/python_lines.h"
#include "libinject/unwind/python_stack.h"

namespace gpuwatch::unwind {
namespace {

uint64_t address_of(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}
uint32_t own_pid() {
  return uint32_t(getpid());
}

void write_plainly(const char* path, StackText& to) {
  to.add(path);
}

PythonRuntime python_of(int minor, uint64_t runtime, uint64_t code_type) {
  ForeignMemory memory(own_pid());
  PythonRuntime python;
  python.runtime = runtime;
  python.code_type = code_type;
  EXPECT_EQ(find_layout(memory, minor, 0, python.layout), nullptr);
  return python;
}

TEST(ForeignMemory, ReadsWhatIsThereAndRefusesWhatIsNot) {
  std::vector<uint8_t> bytes(5000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = uint8_t(i * 7);
  ForeignMemory memory(own_pid());
  uint8_t copy[3000];
  ASSERT_TRUE(memory.read(address_of(bytes.data()) + 3, copy, sizeof copy));
  EXPECT_EQ(std::memcmp(copy, bytes.data() + 3, sizeof copy), 0);
  errno = 77;
  for (uint64_t wild :
       {uint64_t{0}, uint64_t{8}, uint64_t{0xdead0000}, ~uint64_t{0}, ~uint64_t{7}, uint64_t{1} << 63}) {
    memory.forget();
    EXPECT_FALSE(memory.read(wild, copy, 16)) << std::hex << wild;
    EXPECT_EQ(memory.error(), EFAULT) << std::hex << wild;
  }
  EXPECT_EQ(errno, 77);
}

TEST(ForeignMemory, StopsWhereTheMappingEnds) {
  auto* pages =
      static_cast<uint8_t*>(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  mprotect(pages + 4096, 4096, PROT_NONE);
  ForeignMemory memory(own_pid());
  uint8_t copy[64];
  EXPECT_TRUE(memory.read(address_of(pages + 4096 - 64), copy, 64));
  EXPECT_FALSE(memory.read(address_of(pages + 4096 - 63), copy, 64));
  const uint64_t pieces[] = {address_of(pages), address_of(pages + 4096)};
  EXPECT_TRUE(memory.read_all(pieces, 1, copy, 32));
  EXPECT_FALSE(memory.read_all(pieces, 2, copy, 32));
  munmap(pages, 8192);
}

TEST(ForeignMemory, SaysThatAProcessIsGone) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  ForeignMemory memory{uint32_t(child)};
  uint64_t word;
  EXPECT_FALSE(memory.read(address_of(&word), &word, sizeof word));
  EXPECT_EQ(memory.error(), ESRCH);
}

// A region of objects of 256 bytes that are at random: a third like frames, a third like code objects, a
// third like texts, each with pointers that lead to the kind that is expected, to another, or nowhere. Every
// structure that the walker looks for is then found somewhere, wrong in its own way.
class Garbage {
 public:
  explicit Garbage(uint32_t seed) : random_(seed), memory_((kObjects + 1) * kWords) {
    begin_ = (address_of(memory_.data()) + kBytes - 1) / kBytes * kBytes;
    for (size_t i = 0; i < kObjects; ++i) fill(i);
  }
  uint64_t pointer_to(size_t kind) { return begin_ + (random_() % (kObjects / 3) * 3 + kind) * kBytes; }
  uint64_t any_address() { return begin_ + random_() % (kObjects * kBytes); }
  static constexpr uint64_t kCodeType = 0x12340;

 private:
  static constexpr size_t kObjects = 300, kBytes = 256, kWords = kBytes / 8;
  void fill(size_t index) {
    auto* words = reinterpret_cast<uint64_t*>(begin_ + index * kBytes);
    const size_t kind = index % 3;
    for (size_t i = 0; i < kWords; ++i) words[i] = any_word(kind == 2 ? 2 : kind + 1);
    if (kind == 0 && random_() % 2) words[1] = words[3] = words[6] = 0;  // previous, of all versions
    if (kind == 1) words[1] = kCodeType;
    if (kind == 2 && random_() % 4) {
      words[2] = random_() % 600;
      words[4] = 0x20 | (random_() & 0x40) | uint64_t{1} << (2 + random_() % 3);
    }
  }
  uint64_t any_word(size_t kind) {
    switch (random_() % 12) {
      case 0:
        return random_() << 32 | random_();
      case 1:
        return random_() % 300;
      case 2:
        return 0;
      case 3:
        return any_address();
      default:
        return pointer_to(kind);
    }
  }
  std::mt19937_64 random_;
  std::vector<uint64_t> memory_;
  uint64_t begin_ = 0;
};

TEST(Walk, EndsOnGarbageOfEveryVersion) {
  size_t captured = 0, described = 0;
  // Of three walks that come to an end two are refused: what they end in is no outermost frame.
  for (uint32_t seed = 1; seed <= 9000; ++seed) {
    Garbage garbage(seed);
    const PythonRuntime python = python_of(9 + int(seed % 4), garbage.any_address(), Garbage::kCodeType);
    ForeignMemory memory(own_pid());
    PythonStack stack;
    StackText text;
    main_thread_state(memory, python);
    // A thread state whose frame pointer is a frame.
    uint64_t thread[2] = {garbage.pointer_to(0), garbage.pointer_to(0)};
    const uint64_t thread_state = address_of(thread) - python.layout.thread_frame;
    capture_running(memory, python, garbage.any_address(), stack);
    if (!capture(memory, python, seed % 4 ? thread_state : garbage.any_address(), stack)) continue;
    ASSERT_LE(stack.count, PythonStack::kMaxFrames);
    ++captured;
    described += describe(memory, python, stack, write_plainly, text);
    ASSERT_LT(text.size(), kTextBytes);
  }
  EXPECT_GT(captured, 100u);  // else little but the first check was tried
  EXPECT_GT(described, 10u);
}

// Bytes objects with random contents: a line is found or not, and the table is left at its end.
TEST(Lines, EndOnRandomTables) {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::vector<uint8_t> object(32 + random() % 600);
    for (uint8_t& byte : object) byte = uint8_t(random());
    uint64_t size = round % 5 ? object.size() - 32 : random();
    std::memcpy(object.data() + 16, &size, sizeof size);
    ForeignMemory memory(own_pid());
    for (int minor : {9, 10, 11, 12, 13, 14}) {
      const int32_t line = line_of(memory, minor, address_of(object.data()), 1 + int32_t(random() % 1000),
                                   int64_t(random()) - 1000);
      EXPECT_GE(line, 0);
    }
  }
}

TEST(Layout, RefusesWhatItDoesNotKnow) {
  ForeignMemory memory(own_pid());
  PythonLayout layout;
  uint64_t words[64] = {};
  EXPECT_NE(find_layout(memory, 8, address_of(words), layout), nullptr);
  EXPECT_NE(find_layout(memory, 15, address_of(words), layout), nullptr);
  EXPECT_NE(find_layout(memory, 13, address_of(words), layout), nullptr);  // no cookie
  EXPECT_NE(find_layout(memory, 14, 0xdead0000, layout), nullptr);
  std::memcpy(words, "xdebugpy", 8);
  words[1] = 0x030d00f0;  // 3.13.0
  memory.forget();
  EXPECT_EQ(find_layout(memory, 13, address_of(words), layout), nullptr);
  memory.forget();
  EXPECT_NE(find_layout(memory, 14, address_of(words), layout), nullptr);  // another version's
  words[2] = 1;                                                            // free-threaded
  memory.forget();
  EXPECT_NE(find_layout(memory, 13, address_of(words), layout), nullptr);
  words[2] = 0;
  words[30] = ~uint64_t{0};  // an invalid offset
  memory.forget();
  EXPECT_NE(find_layout(memory, 13, address_of(words), layout), nullptr);
}

// _Py_DebugOffsets of 3.14: groups of words, each beginning with the size of its structure. Numbers are those
// that tell the members apart.
TEST(Layout, FindsTheGroupsOf3_14) {
  uint64_t words[64] = {};
  std::memcpy(words, "xdebugpy", 8);
  words[1] = 0x030e00f0;
  for (uint64_t i = 3; i < 64; ++i) words[i] = 100 + i;
  words[36] = 70;  // owner
  ForeignMemory memory(own_pid());
  PythonLayout layout;
  ASSERT_EQ(find_layout(memory, 14, address_of(words), layout), nullptr);
  EXPECT_EQ(layout.interpreters_head, 105);  // after size and finalizing
  EXPECT_EQ(layout.threads_head, 109);       // interpreter: size, id, next, threads_head
  EXPECT_EQ(layout.thread_next, 124);        // thread: size, prev, next, interp, current_frame
  EXPECT_EQ(layout.thread_frame, 126);
  EXPECT_EQ(layout.frame_previous, 132);  // frame: size, previous, executable, instr_ptr, localsplus, owner
  EXPECT_EQ(layout.frame_code, 133);
  EXPECT_EQ(layout.frame_instruction, 134);
  EXPECT_EQ(layout.frame_owner, 70);
  EXPECT_EQ(layout.code_filename, 140);  // code: size, filename, name, qualname, linetable, firstlineno, ...
  EXPECT_EQ(layout.code_name, 142);
  EXPECT_EQ(layout.code_lines, 143);
  EXPECT_EQ(layout.code_first_line, 144);
  EXPECT_EQ(layout.code_bytecode, 148);
}

int a_global;

TEST(ModuleShift, IsNoneForAForkedChildAndFailsForAForeignOne) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  uint64_t shift = 1;
  EXPECT_TRUE(find_module_shift(uint32_t(child), address_of(&a_global), shift));
  EXPECT_EQ(shift, 0u);
  EXPECT_FALSE(find_module_shift(uint32_t(child), 0x10, shift));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(find_module_shift(uint32_t(child), address_of(&a_global), shift));
}

}  // namespace
}  // namespace gpuwatch::unwind
