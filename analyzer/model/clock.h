// SPDX-License-Identifier: Apache-2.0
// Turns the recorder's clocks into CLOCK_MONOTONIC nanoseconds of the host, from the clock samples of a
// trace.
//
//   ticks (TSC or CLOCK_MONOTONIC)  piecewise linear through all samples of a host, whose processes share the
//   TSC device ns (CUPTI's clock)       piecewise linear through one process's samples, in epochs where it
//   was stepped
//
// Both maps are monotonic (within an epoch) and exact at their knots up to one nanosecond: products are taken
// in 128 bits and rounded once. Immutable after construction; a Cursor belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analyzer/model/run.h"

namespace gpuwatch::model {

// Results are kept within this of zero, so that differences and sums of hostile times cannot overflow.
inline constexpr Ns kFarNs = Ns{1} << 55;

// A moment read on two clocks at once.
struct ClockPoint {
  uint64_t from = 0;      // ticks, or device ns
  Ns to = 0;              // CLOCK_MONOTONIC
  uint32_t error_ns = 0;  // half width of the bracket it was read in
};

// A monotonic piecewise linear map. Beyond its ends the rate of the nearest stretch that is long enough to
// know the rate holds on.
class LinearClock {
 public:
  LinearClock() = default;
  // One ns a unit through a single point (or the identity with none): what can be said with one sample.
  // Points that contradict the others (time going backwards) are dropped and counted.
  explicit LinearClock(std::vector<ClockPoint> points);

  // Where the last lookup ended: records come nearly in order, and a search for each would cost more than the
  // rest.
  struct Cursor {
    size_t segment = 0;
  };
  Ns map(uint64_t from, Cursor& cursor) const;
  Ns map(uint64_t from) const {
    Cursor cursor;
    return map(from, cursor);
  }

  bool knows_rate() const { return knows_rate_; }
  size_t contradictions() const { return contradictions_; }
  // Worst distance between a knot and the line through its neighbours, or its own bracket.
  Ns residual_ns() const { return residual_ns_; }

 private:
  struct Segment {
    uint64_t from;  // valid from here up to the next segment's `from`
    Ns to;
    uint64_t rate;  // ns a unit, 2^kRateBits is one
  };
  void add_segments(const std::vector<ClockPoint>& knots);

  std::vector<Segment> segments_;
  uint64_t first_ = 0;
  Ns first_to_ = 0;
  uint64_t rate_before_ = uint64_t{1} << 58;
  bool knows_rate_ = false;
  size_t contradictions_ = 0;
  Ns residual_ns_ = 0;
};

// CUPTI's clock follows CLOCK_REALTIME on most systems, which NTP or an administrator may step; another tool
// in the process may have replaced it by a counter of its own. Samples are cut into epochs at each step;
// within one, the rate is what the samples say. After a step backwards one device time may have been read
// twice: such a time has several readings, and only something else (the call that launched the work) tells
// which it is.
class DeviceClock {
 public:
  DeviceClock() = default;
  explicit DeviceClock(std::vector<ClockPoint> points);

  bool empty() const { return epochs_.empty(); }
  size_t steps() const { return steps_; }
  size_t epochs() const { return epochs_.size(); }
  // Device units a nanosecond, of the epoch where that is furthest from one; 1 for CUPTI's own clock.
  double units_per_ns() const { return units_per_ns_; }
  Ns residual_ns() const;

  struct Cursor {
    size_t epoch = 0;
    LinearClock::Cursor linear;
  };
  Ns map(uint64_t device_ns, Cursor& cursor) const;

  // The first reading that is not before `earliest`, else the last one.
  Ns map_after(uint64_t device_ns, Ns earliest) const;

 private:
  struct Epoch {
    uint64_t first, last;            // device times of its samples
    uint64_t before = 0, after = 0;  // device time that it may have gone on beyond them
    LinearClock clock;
  };
  size_t nearest(uint64_t device_ns) const;
  std::vector<Epoch> epochs_;
  size_t steps_ = 0;
  double units_per_ns_ = 1;
};

}  // namespace gpuwatch::model
