// SPDX-License-Identifier: Apache-2.0
#include "hooks/nvtx/ranges.h"

#include <atomic>

#include "libinject/base/compiler.h"
#include "libinject/base/syscall.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/fork_epoch.h"

namespace gpuwatch::hooks::nvtx {
namespace {

// --- of a thread

constexpr uint32_t kOwnLevels = 2;  // in the thread's own storage, which is scarce where we were opened
constexpr uint32_t kMoreLevels = 62;
constexpr const char kTooDeep[] = "NVTX range nested too deeply";

// Deeper levels of one thread, from its third open range until none is open.
struct Block {
  OpenRange levels[kMoreLevels];
  uint32_t next_free;
};
constexpr uint32_t kBlocks = 512;

struct Stack {
  uint32_t depth;
  uint32_t unrecorded;  // levels above the last one that there is room for
  uint32_t epoch;
  Block* more;
  OpenRange own[kOwnLevels];

  OpenRange& level(uint32_t i) noexcept { return i < kOwnLevels ? own[i] : more->levels[i - kOwnLevels]; }
};
GW_TLS Stack t_stack{};

constinit std::atomic<Block*> g_blocks{nullptr};
// Index of the first free block plus one below, a count that makes each state different above.
constinit std::atomic<uint64_t> g_free{1};

GW_COLD Block* make_blocks() noexcept {
  auto* made = static_cast<Block*>(base::sys_mmap(kBlocks * sizeof(Block), 3 /* read, write */,
                                                  0x4022 /* private, anonymous, no reserve */, -1, 0));
  Block* none = nullptr;
  if (!made) return nullptr;
  return g_blocks.compare_exchange_strong(none, made) ? made : none;  // who came second leaks address space
}

// A block that was never taken has 0: the next one in order comes after it, and no page is touched before its
// time.
uint32_t successor(const Block* blocks, uint32_t index) noexcept {
  const uint32_t next = blocks[index].next_free;
  if (next) return next == kBlocks + 1 ? 0 : next;
  return index + 1 < kBlocks ? index + 2 : 0;
}

Block* take_block() noexcept {
  Block* blocks = g_blocks.load(std::memory_order_acquire);
  if (!blocks) blocks = make_blocks();
  if (!blocks) return nullptr;
  uint64_t free = g_free.load(std::memory_order_acquire);
  for (;;) {
    const auto first = static_cast<uint32_t>(free);
    if (first == 0) return nullptr;
    const uint64_t next = ((free >> 32) + 1) << 32 | successor(blocks, first - 1);
    if (g_free.compare_exchange_weak(free, next, std::memory_order_acquire)) return &blocks[first - 1];
  }
}

void give_back(Block* block) noexcept {
  const auto index = static_cast<uint32_t>(block - g_blocks.load(std::memory_order_relaxed));
  uint64_t free = g_free.load(std::memory_order_relaxed);
  for (;;) {
    const auto first = static_cast<uint32_t>(free);
    block->next_free = first ? first : kBlocks + 1;
    const uint64_t next = ((free >> 32) + 1) << 32 | (index + 1);
    if (g_free.compare_exchange_weak(free, next, std::memory_order_release)) return;
  }
}

Stack& this_threads_stack() noexcept {
  Stack& stack = t_stack;
  uint32_t epoch = runtime::epoch();
  // Just forked: the recorder would give the process its epoch at the first record, when ranges are open.
  if (GW_UNLIKELY(epoch == 0)) epoch = runtime::enter_epoch();
  if (GW_UNLIKELY(stack.epoch != epoch)) stack = Stack{0, 0, epoch, nullptr, {}};
  return stack;
}

int count(Stack& stack, uint32_t domain) noexcept {
  int levels = 0;
  for (uint32_t i = 0; i < stack.depth; ++i) levels += stack.level(i).event.domain == domain;
  return levels;
}

// --- of the process

struct Slot {
  std::atomic<RangeId> id;
  uint32_t epoch;
  uint32_t thread;
  OpenRange range;
};
constexpr size_t kSlots = 1024;
constexpr size_t kMaxProbes = 32;
constexpr RangeId kBeingWritten = ~RangeId{0};
constinit Slot g_slots[kSlots]{};

size_t place_of(RangeId id) noexcept {
  return (id * 0x9e3779b97f4a7c15 >> 32) % kSlots;
}

}  // namespace

int push(const Event& event, uint64_t now) noexcept {
  Stack& stack = this_threads_stack();
  const int before = count(stack, event.domain);
  if (stack.depth == kOwnLevels && !stack.more) stack.more = take_block();
  const uint32_t room = kOwnLevels + (stack.more ? kMoreLevels : 0);
  if (GW_UNLIKELY(stack.unrecorded || stack.depth >= room)) {
    ++stack.unrecorded;
    record::lose(kTooDeep, 1);
    return before;
  }
  stack.level(stack.depth++) = {now, event};
  return before;
}

bool pop(uint32_t domain, OpenRange* range, int* depth) noexcept {
  Stack& stack = this_threads_stack();
  *depth = 0;
  if (stack.unrecorded) {
    --stack.unrecorded;
    return false;
  }
  uint32_t at = stack.depth;
  while (at > 0 && stack.level(at - 1).event.domain != domain) --at;
  if (at == 0) return false;
  *range = stack.level(at - 1);
  for (; at < stack.depth; ++at) stack.level(at - 1) = stack.level(at);
  --stack.depth;
  if (stack.more && stack.depth == 0) {
    give_back(stack.more);
    stack.more = nullptr;
  }
  *depth = count(stack, domain);
  return true;
}

void open(RangeId id, const Event& event, uint64_t now) noexcept {
  const size_t place = place_of(id);
  const uint32_t epoch = runtime::epoch();
  for (size_t i = 0; i < kMaxProbes; ++i) {
    Slot& slot = g_slots[(place + i) % kSlots];
    RangeId there = slot.id.load(std::memory_order_relaxed);
    const bool is_parents = there != 0 && there != kBeingWritten && slot.epoch != epoch;
    if (there != 0 && !is_parents) continue;
    if (!slot.id.compare_exchange_strong(there, kBeingWritten, std::memory_order_acquire)) continue;
    slot.epoch = epoch;
    slot.thread = static_cast<uint32_t>(base::sys_gettid());
    slot.range = {now, event};
    slot.id.store(id, std::memory_order_release);
    return;
  }
  record::lose("NVTX process range while too many were open", 1);
}

bool close(RangeId id, OpenRange* range, uint32_t* thread) noexcept {
  if (id == 0 || id == kBeingWritten) return false;
  const size_t place = place_of(id);
  for (size_t i = 0; i < kMaxProbes; ++i) {
    Slot& slot = g_slots[(place + i) % kSlots];
    RangeId there = id;
    if (!slot.id.compare_exchange_strong(there, kBeingWritten, std::memory_order_acquire)) continue;
    const bool is_ours = slot.epoch == runtime::epoch();
    *range = slot.range;
    *thread = slot.thread;
    slot.id.store(0, std::memory_order_release);
    return is_ours;
  }
  return false;
}

}  // namespace gpuwatch::hooks::nvtx
