// SPDX-License-Identifier: Apache-2.0
// One call of the program into the simulated libraries, from entry to return: correlation id, entry and exit
// callbacks, last error, ground truth. Every exported function that does anything starts with one.
// Times in ns of CLOCK_MONOTONIC.
#pragma once

#include <cstdint>

#include "clock.h"
#include "observer.h"

namespace gpuwatch::sim {

struct ApiInfo {
  ApiDomain domain;
  uint32_t cbid;
  const char* name;
};

class ApiCall {
 public:
  enum class Truth : uint8_t { kLogged, kSilent };

  explicit ApiCall(const ApiInfo& info, Truth truth = Truth::kLogged, const char* symbol = nullptr);
  ~ApiCall();
  ApiCall(const ApiCall&) = delete;
  ApiCall& operator=(const ApiCall&) = delete;

  // `return call.done(error)`
  template <class Error>
  Error done(Error error) {
    event_.result = static_cast<int>(error);
    return error;
  }

  // The call blocked until the device reached `until_ns`.
  void waited(Ns until_ns) { until_ns_ = until_ns; }

  uint32_t correlation() const { return event_.correlation; }
  Ns begin_ns() const { return event_.begin_ns; }

  // Id of the innermost call on this thread, 0 outside.
  static uint32_t current_correlation();

 private:
  ApiEvent event_;
  Observer* observer_;
  uint32_t outer_correlation_;
  Ns entered_ns_;
  Ns until_ns_ = 0;
  Truth truth_;
};

// While one lives on this thread, stream 0 means the thread's own stream, and the call is reported under the
// name and id given here: this is how the `_ptsz` and `_ptds` entry points call the plain ones.
class PerThreadDefault {
 public:
  explicit PerThreadDefault(const ApiInfo& reported_as);
  ~PerThreadDefault();
  PerThreadDefault(const PerThreadDefault&) = delete;
  PerThreadDefault& operator=(const PerThreadDefault&) = delete;

  static bool active();

 private:
  const ApiInfo* outer_;
};

}  // namespace gpuwatch::sim
