// SPDX-License-Identifier: Apache-2.0
// When to ask the interpreter again what it may answer otherwise later: once a second, and at once in a
// forked child, whose facts are others; and a fact that is written when its value is new. Thread safety: the
// GIL must be held. Signal safety: none.
#pragma once

#include <cstdint>

#include "libinject/base/clock.h"
#include "libinject/base/compiler.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/fork_epoch.h"

namespace gpuwatch::hooks::python {

class LookAgain {
 public:
  // Two loads and compares while it is not. `now` in ticks.
  bool is_due(uint64_t now) noexcept {
    if (GW_LIKELY(now < next_ && epoch_ == runtime::epoch())) return false;
    if (!record::is_recording()) return false;
    next_ = now + base::ticks_of_ns(1'000'000'000);
    epoch_ = runtime::epoch();
    return true;
  }

 private:
  uint64_t next_ = 0;
  uint32_t epoch_ = 0;
};

class NumberFact {
 public:
  constexpr explicit NumberFact(const char* key) noexcept : key_(key) {}
  bool is_put() const noexcept { return value_ != UINT64_MAX && epoch_ == runtime::epoch(); }
  void put(uint64_t value) noexcept {
    if (is_put() && value == value_) return;
    value_ = value;
    record::put_fact(key_, value);
    epoch_ = runtime::epoch();
  }

 private:
  const char* key_;
  uint64_t value_ = UINT64_MAX;
  uint32_t epoch_ = 0;
};

// Written once in a process.
class SwitchFact {
 public:
  constexpr explicit SwitchFact(const char* key) noexcept : key_(key) {}
  bool is_put() const noexcept { return epoch_ != 0 && epoch_ == runtime::epoch(); }
  void put_on() noexcept {
    if (is_put()) return;
    record::put_fact(key_, "on");
    epoch_ = runtime::epoch();
  }

 private:
  const char* key_;
  uint32_t epoch_ = 0;
};

}  // namespace gpuwatch::hooks::python
