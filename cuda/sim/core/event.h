// SPDX-License-Identifier: Apache-2.0
// Events, as the runtime and the driver hand them out: a handle of either is a pointer to one of
// these. An event's time is the simulated time at which its stream passed it: exact, without the
// host's noise. Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>

#include "graph.h"

namespace gpuwatch::sim {

struct Event {
  explicit Event(bool with_timing);

  const uint32_t id;
  const bool timing;

  // The point that the stream has come to, or, while it is captured, the nodes that it has come to.
  void record(Stream& stream);
  // Null if it was never recorded, or while a stream was captured.
  MarkerRef marker() const;
  bool has_passed() const;
  // Work submitted to `stream` from now on starts after the event. False where a captured stream would
  // have to wait for one that is not.
  bool make_wait(Stream& stream) const;

 private:
  mutable std::mutex mutex_;
  MarkerRef marker_;        // of the last record
  CapturedPoint captured_;  // if that record was captured
};

enum class Elapsed : uint8_t { kKnown, kNotReady, kInvalid };
Elapsed elapsed_ms(const Event* start, const Event* end, float* ms);

}  // namespace gpuwatch::sim
