// SPDX-License-Identifier: Apache-2.0
#include "event.h"

#include <atomic>

namespace gpuwatch::sim {

namespace {

std::atomic<uint32_t> g_next_event_id{1};

}  // namespace

Event::Event(bool with_timing) : id(g_next_event_id.fetch_add(1)), timing(with_timing) {}

void Event::record(Stream& stream) {
  CapturedPoint captured = captured_point(stream);
  MarkerRef marker = captured.capture ? nullptr : Timeline::instance().record(stream);
  std::lock_guard lock(mutex_);
  marker_ = std::move(marker);
  captured_ = std::move(captured);
}

MarkerRef Event::marker() const {
  std::lock_guard lock(mutex_);
  return marker_;
}

bool Event::has_passed() const {
  const MarkerRef at = marker();
  return !at || Timeline::passed(*at);
}

bool Event::make_wait(Stream& stream) const {
  MarkerRef marker;
  CapturedPoint captured;
  {
    std::lock_guard lock(mutex_);
    marker = marker_;
    captured = captured_;
  }
  if (captured.capture) {
    join_capture(stream, captured);
  } else if (is_capturing(stream)) {
    return false;
  } else if (marker) {
    Timeline::instance().wait(stream, marker);
  }
  return true;
}

Elapsed elapsed_ms(const Event* start, const Event* end, float* ms) {
  if (!ms || !start || !end || !start->timing || !end->timing) return Elapsed::kInvalid;
  const MarkerRef from = start->marker();
  const MarkerRef to = end->marker();
  if (!from || !to) return Elapsed::kInvalid;
  if (!Timeline::passed(*from) || !Timeline::passed(*to)) return Elapsed::kNotReady;
  *ms = static_cast<float>(static_cast<double>(to->at - from->at) / 1e6);
  return Elapsed::kKnown;
}

}  // namespace gpuwatch::sim
