// SPDX-License-Identifier: Apache-2.0
#include "libinject/runtime/real_function.h"

#include <unistd.h>

#include "libinject/base/errno_guard.h"
#include "libinject/base/futex_lock.h"
#include "libinject/runtime/scope_lookup.h"

namespace gpuwatch::runtime {
namespace {

constexpr uint64_t kOneUnload = kUnloadsInProgress + 1;

constinit base::FutexLock g_keep_lock;
constinit uint16_t g_serial = 0;

// Calls from one place, where a symbol has several definitions or more calling objects than it has room for;
// and by the begin of an object's code, what its references bind to. Binding's words: the place, the symbol.
// Untouched pages take no memory.
constexpr size_t kSets = 4096, kWays = 4;
constinit Binding g_by_place[kSets][kWays];

Binding* set_of(uintptr_t place, uintptr_t symbol) noexcept {
  return g_by_place[(place ^ symbol << 16) * UINT64_C(0x9e3779b97f4a7c15) >> 52];
}
static_assert(kSets == 1u << (64 - 52));

void* find_by_place(uintptr_t place, const RealSymbol* of, uint64_t now) noexcept {
  const auto symbol = reinterpret_cast<uintptr_t>(of);
  const Binding* set = set_of(place, symbol);
  for (size_t way = 0; way < kWays; ++way) {
    if (void* found = set[way].find(now, [=](uintptr_t first, uintptr_t second) noexcept {
          return first == place && second == symbol;
        })) {
      return found;
    }
  }
  return nullptr;
}

// Without waiting: who does not get the lock (a signal handler of its own holder) looks it up again.
class KeepGuard {
 public:
  explicit KeepGuard(uint64_t now) noexcept
      : has_it_(!(now & kUnloadsInProgress) &&
                g_keep_lock.try_lock(static_cast<uint32_t>(base::sys_getpid()))) {}
  ~KeepGuard() noexcept {
    if (has_it_) g_keep_lock.unlock();
  }
  KeepGuard(const KeepGuard&) = delete;
  KeepGuard& operator=(const KeepGuard&) = delete;
  explicit operator bool() const noexcept { return has_it_; }

 private:
  bool has_it_;
};

void keep_for_place(uintptr_t place, const RealSymbol* of, void* function, uint64_t now) noexcept {
  const KeepGuard guard(now);
  if (!guard) return;
  const auto symbol = reinterpret_cast<uintptr_t>(of);
  Binding* set = set_of(place, symbol);
  for (size_t way = 0; way < kWays; ++way) {
    if (!set[way].is_current(now)) return set[way].set(place, symbol, function, now);
  }
  set[g_serial % kWays].set(place, symbol, function, now);
}

int see_unloaded(dl_phdr_info* object, size_t, void* count) noexcept {
  *static_cast<uint64_t*>(count) = object->dlpi_subs;
  return 1;
}

uint64_t unloaded() noexcept {
  uint64_t count = 0;
  dl_iterate_phdr(see_unloaded, &count);
  return count;
}

}  // namespace

constinit std::atomic<uint64_t> g_unloads{kOneUnload};

Unloading::Unloading() noexcept : unloaded_before_(unloaded()) {
  g_unloads.fetch_add(1, std::memory_order_acq_rel);
}

Unloading::~Unloading() noexcept {
  const base::ErrnoGuard keep_errno;
  const uint64_t voided = unloaded() == unloaded_before_ ? 0 : kOneUnload;
  g_unloads.fetch_add(voided - 1, std::memory_order_acq_rel);
}

void Binding::set(uintptr_t first, uintptr_t second, void* function, uint64_t now) noexcept {
  stamp_.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  first_.store(first, std::memory_order_relaxed);
  second_.store(second, std::memory_order_relaxed);
  function_.store(function, std::memory_order_relaxed);
  stamp_.store(now | ++g_serial, std::memory_order_release);
}

void* RealSymbol::find(uintptr_t caller, const void* own, uint64_t now) noexcept {
  const bool has_several = definitions_.load(std::memory_order_relaxed) > 1;
  for (size_t i = 1; !has_several && i < kObjects; ++i) {
    if (void* found = find_by_object(i, caller, now)) return found;
  }
  if (void* found = find_by_place(caller, this, now)) return found;
  return has_several ? resolve_among_several(caller, own, now) : resolve_one(caller, own, now);
}

bool RealSymbol::keep_for_object(uintptr_t begin, size_t bytes, void* function, uint64_t now) noexcept {
  const KeepGuard guard(now);
  if (!guard) return true;
  for (Binding& binding : by_object_) {
    if (!binding.is_current(now)) return binding.set(begin, bytes, function, now), true;
  }
  return false;
}

GW_COLD void* RealSymbol::resolve_one(uintptr_t caller, const void* own, uint64_t now) noexcept {
  const base::ErrnoGuard keep_errno;
  const Definitions all = find_definitions(wanted_);
  if (all.count > 1) {
    // Another definition has come: a place that was bound by its object may now be that of a tail call from a
    // library that came with it, so what is kept is void.
    definitions_.store(all.count, std::memory_order_relaxed);
    const uint64_t before = g_unloads.fetch_add(kOneUnload, std::memory_order_acq_rel);
    return resolve_among_several(caller, own, before + kOneUnload);
  }
  LoadedObject object;
  // Code that was compiled at run time lies in no object.
  if (all.first &&
      !(find_object(caller, &object) && keep_for_object(object.begin, object.bytes, all.first, now))) {
    keep_for_place(caller, this, all.first, now);
  }
  return all.first;
}

GW_COLD void* RealSymbol::resolve_among_several(uintptr_t caller, const void* own, uint64_t now) noexcept {
  const base::ErrnoGuard keep_errno;
  LoadedObject object;
  void* found = nullptr;
  if (find_calling_object(wanted_.name, caller, own, &object)) {
    found = find_by_place(object.begin, this, now);
    if (!found) {
      found = look_up_for(object, wanted_);
      if (found) keep_for_place(object.begin, this, found, now);
    }
  }
  if (!found) found = find_definitions(wanted_).first;
  if (found) keep_for_place(caller, this, found, now);
  return found;
}

}  // namespace gpuwatch::runtime
