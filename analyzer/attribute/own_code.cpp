// SPDX-License-Identifier: Apache-2.0
#include "analyzer/attribute/own_code.h"

#include <algorithm>

#include "analyzer/attribute/place.h"

namespace gpuwatch::attribute {

using model::Ns;
using model::TimeSpan;

OwnCode::OwnCode(const ProcessView& view, uint32_t thread, size_t steps, const StepCosts* costs)
    : view_(view), activity_(view.activity(thread)), thread_(thread), steps_(steps), costs_(costs) {
  find_operators();
  find_long();
  count_visits();
}

void OwnCode::find_long() {
  is_long_.resize(activity_.size());
  for (size_t i = 0; i < activity_.size(); ++i)
    is_long_[i] = is_between_calls(activity_, i) && is_long(activity_[i]);
}

void OwnCode::count_visits() {
  for (size_t i = 0; i < activity_.size(); ++i)
    if (is_long_[i]) places_.try_emplace(place_of(view_, thread_, i));
  if (places_.empty()) return;
  for (size_t i = 0; i < activity_.size(); ++i) {
    if (!is_between_calls(activity_, i)) continue;
    const auto place = places_.find(place_of(view_, thread_, i));
    if (place == places_.end()) continue;
    if (is_long_[i]) place->second.long_visits.push_back(place->second.times);
    ++place->second.times;
  }
  for (auto& [key, place] : places_) place.is_work = is_work(place);
}

bool OwnCode::is_long(const Stretch& stretch) const {
  if (stretch.length() <= kDispatchNs) return false;
  Ns others = costs_ ? costs_->delay_within({stretch.begin, stretch.end}) : 0;
  for (Ns time = stretch.begin; time < stretch.end;) {
    const TimeSpan span = next_operator(time, stretch.end);
    others += span.length();
    time = span.end;
  }
  return stretch.length() - others > kDispatchNs;
}

// Of a trace of ours, a call of an unknown class is that of a newer recorder.
void OwnCode::find_operators() {
  if (view_.process().imported_from.empty()) return;
  for (const model::HostCall& call : view_.thread(thread_).calls) {
    const bool is_inner = !operators_.empty() && call.begin < operators_.back().end;
    if (call.op_class == trace::OpClass::Other && !is_inner) operators_.push_back({call.begin, call.end});
  }
}

TimeSpan OwnCode::next_operator(Ns time, Ns end) const {
  const auto next = std::partition_point(operators_.begin(), operators_.end(),
                                         [&](const TimeSpan& each) { return each.end <= time; });
  if (next == operators_.end() || next->begin >= end) return {end, end};
  return {std::max(next->begin, time), std::min(next->end, end)};
}

Category OwnCode::category(size_t stretch_index) const {
  if (stretch_index == 0) return Category::LaunchDispatch;  // on its way to the first call that was seen
  if (stretch_index + 1 == activity_.size())
    return activity_[stretch_index].length() > kDispatchNs ? Category::HostCompute : Category::LaunchDispatch;
  if (!is_long_[stretch_index]) return Category::LaunchDispatch;
  const auto found = places_.find(place_of(view_, thread_, stretch_index));
  return found == places_.end() || found->second.is_work ? Category::HostCompute : Category::LaunchDispatch;
}

// Long at most visits, or, at a place that is visited several times a step, at the same one of them in most
// steps: work that belongs there. A core that was taken away is missed at any of them.
bool OwnCode::is_work(const Place& place) const {
  const size_t long_times = place.long_visits.size();
  if (2 * long_times > place.times) return true;
  if (2 * long_times < steps_ || steps_ == 0) return false;
  const size_t a_step = std::max<size_t>(1, (place.times + steps_ / 2) / steps_);
  std::unordered_map<size_t, size_t> by_turn;
  size_t most = 0;
  for (const size_t visit : place.long_visits) most = std::max(most, ++by_turn[visit % a_step]);
  return 2 * most >= steps_;
}

}  // namespace gpuwatch::attribute
