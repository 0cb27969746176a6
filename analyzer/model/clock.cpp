// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/clock.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gpuwatch::model {
namespace {

constexpr int kRateBits = 58;  // a picosecond a day of rounding; rates up to 64 ns a unit fit
constexpr uint64_t kUnitRate = uint64_t{1} << kRateBits;

// Two samples closer than this, each read within a microsecond, say more about the microsecond than about the
// rate between them (1 us in 100 ms is 10 ppm, the size of what NTP corrects).
constexpr Ns kKnotSpacingNs = 100'000'000;

// Rates are believed beyond the ends only from a stretch of this length, if there is one.
constexpr Ns kRateSpanNs = 1'000'000'000;

// A stretch of CUPTI's clock whose rate is off by more than this (NTP slews by 500 ppm at most) was a step.
constexpr double kStepRate = 2e-3;
constexpr Ns kStepNs = 50'000;  // and less than this is the noise of two brackets

uint64_t rate_between(const ClockPoint& a, const ClockPoint& b) {
  const auto rise = static_cast<unsigned __int128>(b.to - a.to) << kRateBits;
  const unsigned __int128 rate = rise / (b.from - a.from);
  return static_cast<uint64_t>(std::min<unsigned __int128>(rate, std::numeric_limits<uint64_t>::max()));
}

Ns scaled(uint64_t units, uint64_t rate) {
  const auto ns = static_cast<unsigned __int128>(units) * rate >> kRateBits;
  return static_cast<Ns>(std::min<unsigned __int128>(ns, 2 * kFarNs));
}

Ns clamped(Ns ns) {
  return std::clamp(ns, -kFarNs, kFarNs);
}

// Sorted by `from`, without points that go backwards in `to`.
std::vector<ClockPoint> consistent(std::vector<ClockPoint> points, size_t& contradictions) {
  for (auto& point : points) point.to = clamped(point.to);
  std::sort(points.begin(), points.end(), [](const ClockPoint& a, const ClockPoint& b) {
    return a.from != b.from ? a.from < b.from : a.error_ns < b.error_ns;
  });
  std::vector<ClockPoint> kept;
  for (const auto& point : points) {
    if (!kept.empty() && (point.from == kept.back().from || point.to < kept.back().to)) {
      // Threads that read the clocks at the same time may disagree by their brackets; more is a
      // contradiction.
      const Ns noise = Ns{point.error_ns} + kept.back().error_ns + 1;
      contradictions += std::abs(kept.back().to - point.to) > noise;
      continue;  // of two at one moment, the tighter one is in
    }
    kept.push_back(point);
  }
  return kept;
}

// At most one knot in kKnotSpacingNs, the tightest; first and last stay when the whole is shorter than that.
std::vector<ClockPoint> thinned(const std::vector<ClockPoint>& points) {
  if (points.size() < 3) return points;
  std::vector<ClockPoint> knots;
  for (const auto& point : points) {
    if (knots.empty() || point.to - knots.back().to >= kKnotSpacingNs) {
      knots.push_back(point);
    } else if (point.error_ns < knots.back().error_ns &&
               (knots.size() < 2 || point.to - knots[knots.size() - 2].to >= kKnotSpacingNs)) {
      knots.back() = point;
    }
  }
  if (knots.size() == 1) return {points.front(), points.back()};
  return knots;
}

}  // namespace

LinearClock::LinearClock(std::vector<ClockPoint> points) {
  const auto knots = thinned(consistent(std::move(points), contradictions_));
  if (knots.empty()) return;
  add_segments(knots);
  for (const auto& knot : knots) residual_ns_ = std::max<Ns>(residual_ns_, knot.error_ns);
  for (size_t i = 1; i + 1 < knots.size(); ++i) {
    const Ns line =
        knots[i - 1].to + scaled(knots[i].from - knots[i - 1].from, rate_between(knots[i - 1], knots[i + 1]));
    residual_ns_ = std::max(residual_ns_, std::abs(line - knots[i].to));
  }
}

void LinearClock::add_segments(const std::vector<ClockPoint>& knots) {
  first_ = knots.front().from;
  first_to_ = knots.front().to;
  for (size_t i = 0; i + 1 < knots.size(); ++i) {
    segments_.push_back({knots[i].from, knots[i].to, rate_between(knots[i], knots[i + 1])});
  }
  uint64_t rate_after = kUnitRate;
  if (knots.size() > 1) {
    knows_rate_ = true;
    const auto far_enough = [](const ClockPoint& a, const ClockPoint& b) {
      return b.to - a.to >= kRateSpanNs;
    };
    const auto& back = knots.back();
    const auto& front = knots.front();
    size_t late = knots.size() - 2, early = 1;
    while (late > 0 && !far_enough(knots[late], back)) --late;
    while (early + 1 < knots.size() && !far_enough(front, knots[early])) ++early;
    rate_after = rate_between(knots[late], back);
    rate_before_ = rate_between(front, knots[early]);
  }
  segments_.push_back({knots.back().from, knots.back().to, rate_after});
}

Ns LinearClock::map(uint64_t from, Cursor& cursor) const {
  if (segments_.empty()) return static_cast<Ns>(std::min<uint64_t>(from, kFarNs));
  if (from < first_) return clamped(first_to_ - scaled(first_ - from, rate_before_));
  size_t i = std::min(cursor.segment, segments_.size() - 1);
  const bool inside =
      from >= segments_[i].from && (i + 1 == segments_.size() || from < segments_[i + 1].from);
  if (!inside) {
    const auto after = std::upper_bound(segments_.begin(), segments_.end(), from,
                                        [](uint64_t value, const Segment& s) { return value < s.from; });
    i = static_cast<size_t>(after - segments_.begin()) - 1;
    cursor.segment = i;
  }
  return clamped(segments_[i].to + scaled(from - segments_[i].from, segments_[i].rate));
}

namespace {

// From a sample to the next one.
struct Stretch {
  double units_per_ns = 1;
  bool is_step = false;
  bool is_foreign = false;
};

bool is_rate(double rate, double expected, Ns host_ns) {
  const double slack = double(kStepNs) / double(std::max<Ns>(host_ns, 1)) + kStepRate;
  return std::abs(rate - expected) <= slack * std::max(1.0, expected);
}

// A stretch at CUPTI's own rate is no step. One at another rate is none if a neighbour confirms the rate:
// then the clock is somebody else's counter.
std::vector<Stretch> stretches_of(const std::vector<ClockPoint>& points) {
  std::vector<Stretch> stretches;
  const auto host_ns = [&](size_t i) { return points[i + 1].to - points[i].to; };
  for (size_t i = 0; i + 1 < points.size(); ++i) {
    const double device = static_cast<double>(points[i + 1].from) - static_cast<double>(points[i].from);
    stretches.push_back({device / double(std::max<Ns>(host_ns(i), 1))});
  }
  for (size_t i = 0; i < stretches.size(); ++i) {
    const double rate = stretches[i].units_per_ns;
    const auto confirms = [&](size_t other) {
      return other < stretches.size() && rate > 0 &&
             is_rate(stretches[other].units_per_ns, rate, std::min(host_ns(i), host_ns(other)));
    };
    if (is_rate(rate, 1, host_ns(i))) continue;
    stretches[i].is_foreign = confirms(i + 1) || (i > 0 && confirms(i - 1));
    stretches[i].is_step = !stretches[i].is_foreign;
  }
  return stretches;
}

uint64_t in_units(Ns ns, double units_per_ns) {
  return static_cast<uint64_t>(std::clamp(double(ns) * units_per_ns, 0.0, double(kFarNs)));
}

}  // namespace

DeviceClock::DeviceClock(std::vector<ClockPoint> points) {
  std::stable_sort(points.begin(), points.end(),
                   [](const ClockPoint& a, const ClockPoint& b) { return a.to < b.to; });
  std::vector<Stretch> stretches = stretches_of(points);
  steps_ = static_cast<size_t>(std::ranges::count_if(stretches, &Stretch::is_step));
  // Nobody sets a clock so often: what the samples agree on is one clock, or nothing is known. Else each
  // operation would be looked for in thousands of epochs.
  constexpr size_t kMostSteps = 64;
  if (steps_ > kMostSteps)
    for (Stretch& stretch : stretches) stretch.is_step = false;
  for (size_t first = 0; first < points.size();) {
    size_t last = first;
    double units_per_ns = 1;
    while (last + 1 < points.size() && !stretches[last].is_step) {
      if (stretches[last].is_foreign) units_per_ns = stretches[last].units_per_ns;
      ++last;
    }
    if (units_per_ns != 1) units_per_ns_ = units_per_ns;
    Epoch epoch;
    epoch.first = points[first].from;
    epoch.last = points[last].from;
    if (first > 0) epoch.before = in_units(points[first].to - points[first - 1].to, units_per_ns);
    if (last + 1 < points.size()) epoch.after = in_units(points[last + 1].to - points[last].to, units_per_ns);
    epoch.clock = LinearClock(
        {points.begin() + static_cast<ptrdiff_t>(first), points.begin() + static_cast<ptrdiff_t>(last) + 1});
    epochs_.push_back(std::move(epoch));
    first = last + 1;
  }
}

Ns DeviceClock::residual_ns() const {
  Ns worst = 0;
  for (const auto& epoch : epochs_) worst = std::max(worst, epoch.clock.residual_ns());
  return worst;
}

// Where no epoch holds it: the one whose samples are nearest. Between two epochs the step's moment is not
// known, and the nearer sample is the better witness.
size_t DeviceClock::nearest(uint64_t device_ns) const {
  size_t chosen = 0;
  uint64_t nearest = std::numeric_limits<uint64_t>::max();
  for (size_t i = 0; i < epochs_.size(); ++i) {
    const uint64_t distance = device_ns < epochs_[i].first  ? epochs_[i].first - device_ns
                              : device_ns > epochs_[i].last ? device_ns - epochs_[i].last
                                                            : 0;
    if (distance < nearest) {
      nearest = distance;
      chosen = i;
    }
  }
  return chosen;
}

Ns DeviceClock::map(uint64_t device_ns, Cursor& cursor) const {
  if (epochs_.empty()) return static_cast<Ns>(std::min<uint64_t>(device_ns, kFarNs));
  size_t chosen = std::min(cursor.epoch, epochs_.size() - 1);
  const bool is_held = device_ns >= epochs_[chosen].first && device_ns <= epochs_[chosen].last;
  if (epochs_.size() > 1 && !is_held) {
    chosen = nearest(device_ns);
    cursor = {chosen, {}};
  }
  return epochs_[chosen].clock.map(device_ns, cursor.linear);
}

Ns DeviceClock::map_after(uint64_t device_ns, Ns earliest) const {
  Ns reading = 0;
  bool found = false;
  for (const Epoch& epoch : epochs_) {  // in the order of host time
    const bool too_early = device_ns < epoch.first && epoch.first - device_ns > epoch.before;
    const bool too_late = device_ns > epoch.last && device_ns - epoch.last > epoch.after;
    if (too_early || too_late) continue;
    reading = epoch.clock.map(device_ns);
    found = true;
    if (reading >= earliest) return reading;
  }
  Cursor cursor;
  return found ? reading : map(device_ns, cursor);
}

}  // namespace gpuwatch::model
