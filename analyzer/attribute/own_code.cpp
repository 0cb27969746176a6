// SPDX-License-Identifier: Apache-2.0
#include "analyzer/attribute/own_code.h"

namespace gpuwatch::attribute {

using model::HostCall;
using model::kNone;

OwnCode::OwnCode(const ProcessView& view, uint32_t thread, size_t steps)
    : view_(view), activity_(view.activity(thread)), thread_(thread), steps_(steps) {
  const auto is_between_calls = [&](size_t i) {
    return i > 0 && i + 1 < activity_.size() && activity_[i].call == kNone;
  };
  for (size_t i = 0; i < activity_.size(); ++i) {
    if (is_between_calls(i) && activity_[i].length() > kDispatchNs) ++places_[place_of(i)].long_times;
  }
  if (places_.empty()) return;
  for (size_t i = 0; i < activity_.size(); ++i) {
    if (!is_between_calls(i)) continue;
    const auto place = places_.find(place_of(i));
    if (place != places_.end()) ++place->second.times;
  }
}

// Long at most visits, or in most steps: work that belongs there.
Category OwnCode::category(size_t stretch_index) const {
  if (stretch_index == 0) return Category::LaunchDispatch;  // on its way to the first call that was seen
  if (activity_[stretch_index].length() <= kDispatchNs) return Category::LaunchDispatch;
  if (stretch_index + 1 == activity_.size()) return Category::HostCompute;
  const auto found = places_.find(place_of(stretch_index));
  if (found == places_.end()) return Category::HostCompute;
  const Place& place = found->second;
  const bool is_work = 2 * place.long_times > place.times || 2 * place.long_times >= steps_;
  return is_work ? Category::HostCompute : Category::LaunchDispatch;
}

uint64_t OwnCode::place_of(size_t stretch_index) const {
  const uint64_t before = call_key(activity_[stretch_index - 1].call);
  const uint64_t after = call_key(activity_[stretch_index + 1].call);
  return before * 0x9e3779b97f4a7c15u ^ after;
}

uint64_t OwnCode::call_key(uint32_t call) const {
  const HostCall& host_call = view_.call(thread_, call);
  return model::caller_of(view_.thread(thread_), host_call) * 0xff51afd7ed558ccdu ^ host_call.operation;
}

}  // namespace gpuwatch::attribute
