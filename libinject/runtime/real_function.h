// SPDX-License-Identifier: Apache-2.0
// The function that a hook stands in front of: the one that ld.so would have bound the calling object to,
// were this library not there. A process can have several libraries of one API (PyTorch's CUDA runtime, and
// the copy that an extension bundles), so the answer is kept per calling object:
//   - one library behind us defines the symbol, which is the usual case: that one, whoever calls;
//   - several do: the global scope behind us, then the scope of the library that was opened and brought the
//     caller along, with the version that the caller asks for (scope_lookup.h). Kept per place of the call,
//     as the caller's caller stands on the stack where a function ends in a call of the hook (tail call).
// What cannot be told apart: two libraries whose functions tail-call the same hook, called through a pointer
// from one and the same place; and a function pointer to the hook that one library passes to another.
// Libraries that are closed take what was found of them along: dlclose is hooked (Unloading).
// Thread safety: any; racing threads find the same. Signal safety: get() is, once it has found the function
// for this place. Errors: get() returns null when there is no such function; the hook answers with the API's
// own error. errno is kept.
#pragma once

#include <atomic>
#include <cstdint>

#include "libinject/base/compiler.h"
#include "libinject/runtime/elf_symbols.h"

namespace gpuwatch::runtime {

// While libraries are being closed nothing new is kept, and afterwards what is kept is void, if one was
// unloaded. It holds until then: a destructor may wait for a thread whose call would else wait in dlsym for
// the lock that dlclose has.
class Unloading {
 public:
  Unloading() noexcept;
  ~Unloading() noexcept;
  Unloading(const Unloading&) = delete;
  Unloading& operator=(const Unloading&) = delete;

 private:
  uint64_t unloaded_before_;
};

// Above the low 16 bits: how often what is kept became void. The low 16 bits: calls of dlclose in progress.
extern constinit std::atomic<uint64_t> g_unloads;
constexpr uint64_t kUnloadsInProgress = 0xffff;

// One kept answer, with two words that say for whom. Read without a lock: the stamp, which is g_unloads when
// it was written with a serial number in the low bits, is the same before and after.
class Binding {
 public:
  // Null: not for `matches(first word, second word)`. `now`: g_unloads.
  template <class Matches>
  void* find(uint64_t now, Matches matches) const noexcept {
    const uint64_t stamp = stamp_.load(std::memory_order_acquire);
    if (!is_of(stamp, now)) return nullptr;
    if (!matches(first_.load(std::memory_order_relaxed), second_.load(std::memory_order_relaxed)))
      return nullptr;
    void* const function = function_.load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    return GW_LIKELY(stamp_.load(std::memory_order_relaxed) == stamp) ? function : nullptr;
  }
  bool is_current(uint64_t now) const noexcept { return is_of(stamp_.load(std::memory_order_relaxed), now); }
  void set(uintptr_t first, uintptr_t second, void* function, uint64_t now) noexcept;  // under a lock

 private:
  static bool is_of(uint64_t stamp, uint64_t now) noexcept {
    return (stamp & ~kUnloadsInProgress) == (now & ~kUnloadsInProgress);
  }
  std::atomic<uint64_t> stamp_{0};
  std::atomic<uintptr_t> first_{0}, second_{0};
  std::atomic<void*> function_{nullptr};
};

class RealSymbol {
 public:
  explicit constexpr RealSymbol(const char* name) noexcept : wanted_{name, gnu_hash(name)} {}

  // `own`: the hook itself.
  void* get(const void* caller, const void* own) noexcept {
    const uint64_t now = g_unloads.load(std::memory_order_acquire);
    const auto place = reinterpret_cast<uintptr_t>(caller);
    if (void* found = find_by_object(0, place, now); GW_LIKELY(found != nullptr)) return found;
    return find(place, own, now);
  }

 private:
  static constexpr size_t kObjects = 4;  // PyTorch's three libraries that call CUDA, and one more

  // Binding's words: the begin and the bytes of the calling object's code.
  void* find_by_object(size_t i, uintptr_t place, uint64_t now) const noexcept {
    return by_object_[i].find(
        now, [place](uintptr_t begin, uintptr_t bytes) noexcept { return place - begin < bytes; });
  }
  [[gnu::noinline]] void* find(uintptr_t caller, const void* own, uint64_t now) noexcept;
  GW_COLD void* resolve_one(uintptr_t caller, const void* own, uint64_t now) noexcept;
  GW_COLD void* resolve_among_several(uintptr_t caller, const void* own, uint64_t now) noexcept;
  // False: there is no room.
  bool keep_for_object(uintptr_t begin, size_t bytes, void* function, uint64_t now) noexcept;

  Binding by_object_[kObjects];
  WantedSymbol wanted_;
  std::atomic<size_t> definitions_{0};  // 0 until there were several
};

template <class Function>
class RealFunction {
 public:
  explicit constexpr RealFunction(const char* name) noexcept : symbol_(name) {}
  Function get(const void* caller, const void* own) noexcept {
    return reinterpret_cast<Function>(symbol_.get(caller, own));
  }

 private:
  RealSymbol symbol_;
};

}  // namespace gpuwatch::runtime
