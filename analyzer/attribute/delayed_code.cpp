// SPDX-License-Identifier: Apache-2.0
#include "analyzer/attribute/delayed_code.h"

#include <algorithm>

#include "analyzer/attribute/fetch_split.h"
#include "analyzer/model/quantile.h"

namespace gpuwatch::attribute {

using model::Ns;
using model::TimeSpan;

// A thread without a call has no places.
DelayedCode::DelayedCode(const ProcessView& view, uint32_t thread)
    : view_(view), activity_(&view.activity(thread)), thread_(thread) {
  std::unordered_map<uint64_t, std::vector<Ns>> lengths;
  for (size_t i = 0; i < activity_->size(); ++i)
    if (is_between_calls(*activity_, i))
      lengths[place_of(view, thread, i)].push_back((*activity_)[i].length());
  for (auto& [place, of_place] : lengths) usual_.emplace(place, model::median(std::move(of_place)));
}

Ns DelayedCode::excess_of(size_t stretch_index) const {
  if (!is_between_calls(*activity_, stretch_index)) return 0;
  const auto usual = usual_.find(place_of(view_, thread_, stretch_index));
  return usual == usual_.end() ? 0 : std::max<Ns>(0, (*activity_)[stretch_index].length() - usual->second);
}

std::vector<DelayedCode::Piece> DelayedCode::pieces_in(TimeSpan interval) const {
  std::vector<Piece> pieces;
  for (size_t i = activity_->index_at(interval.begin); i < activity_->size(); ++i) {
    const Stretch stretch = (*activity_)[i];
    if (stretch.begin >= interval.end) break;
    if (stretch.call != model::kNone) continue;
    const TimeSpan part{std::max(stretch.begin, interval.begin), std::min(stretch.end, interval.end)};
    if (part.length() <= 0) continue;
    pieces.push_back({part, share_until(excess_of(i), part.length(), stretch.length())});
  }
  return pieces;
}

void DelayedCode::add(TimeSpan interval, Ns delay_ns) {
  if (delay_ns <= 0) return;
  const std::vector<Piece> pieces = pieces_in(interval);
  Ns own_ns = 0, excess_ns = 0;
  for (const Piece& piece : pieces) {
    own_ns += piece.time.length();
    excess_ns += piece.excess_ns;
  }
  const Ns by_excess = std::min(delay_ns, excess_ns), evenly = std::min(delay_ns, own_ns) - by_excess;
  Ns delay = knots_.empty() ? 0 : knots_.back().delay_ns;
  for (const Piece& piece : pieces) {
    knots_.push_back({piece.time.begin, delay});
    delay += share_until(by_excess, piece.excess_ns, excess_ns) +
             share_until(evenly, piece.time.length() - piece.excess_ns, own_ns - excess_ns);
    knots_.push_back({piece.time.end, delay});
  }
}

Ns DelayedCode::until(Ns time) const {
  const auto after = std::upper_bound(knots_.begin(), knots_.end(), time,
                                      [](Ns at, const Knot& knot) { return at < knot.time; });
  if (after == knots_.begin()) return 0;
  const Knot& before = *(after - 1);
  if (after == knots_.end()) return before.delay_ns;
  return before.delay_ns +
         share_until(after->delay_ns - before.delay_ns, time - before.time, after->time - before.time);
}

}  // namespace gpuwatch::attribute
