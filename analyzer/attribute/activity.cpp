// SPDX-License-Identifier: Apache-2.0
#include "analyzer/attribute/activity.h"

#include <algorithm>
#include <limits>

namespace gpuwatch::attribute {
namespace {

using model::HostCall;
using model::kNone;
using model::Ns;
using trace::OpClass;

bool is_transparent_when_loading(OpClass op_class) {
  return op_class != OpClass::Fetch && op_class != OpClass::Collate && !is_off_cpu(op_class);
}

// Which of an enclosing call and a call within it tells more.
uint32_t deciding(std::span<const HostCall> calls, uint32_t enclosing, uint32_t inner, View view) {
  const OpClass op_class = calls[inner].op_class;
  if (view == View::kLoading) return is_transparent_when_loading(op_class) ? enclosing : inner;
  if (is_transparent(op_class)) return enclosing;
  return enclosing == kNone || op_class == OpClass::GarbageCollection ? inner : enclosing;
}

}  // namespace

Activity::Activity(std::span<const HostCall> calls, View view) {
  struct Frame {
    Ns end;
    uint32_t call;
  };
  std::vector<Frame> frames = {{kEndOfTime, kNone}};
  changes_.push_back({kBeginOfTime, kNone});
  const auto leave_until = [&](Ns time) {
    while (frames.back().end <= time && frames.size() > 1) {
      const Ns end = frames.back().end;
      frames.pop_back();
      change(end, frames.back().call);
    }
  };
  for (uint32_t i = 0; i < calls.size(); ++i) {
    leave_until(calls[i].begin);
    // A clock rounds the two ends of nested calls one by one: keep the inner one inside.
    const Ns end = std::min(calls[i].end, frames.back().end);
    if (end <= calls[i].begin) continue;
    frames.push_back({end, deciding(calls, frames.back().call, i, view)});
    change(calls[i].begin, frames.back().call);
  }
  leave_until(kEndOfTime - 1);
}

void Activity::change(Ns time, uint32_t call) {
  if (changes_.back().time == time) changes_.pop_back();
  if (changes_.empty() || changes_.back().call != call) changes_.push_back({time, call});
}

Stretch Activity::operator[](size_t index) const {
  const Ns end = index + 1 < changes_.size() ? changes_[index + 1].time : kEndOfTime;
  return {changes_[index].time, end, changes_[index].call};
}

size_t Activity::index_at(Ns time) const {
  const auto after = std::upper_bound(changes_.begin(), changes_.end(), time,
                                      [](Ns t, const Change& change) { return t < change.time; });
  return after == changes_.begin() ? 0 : static_cast<size_t>(after - changes_.begin()) - 1;
}

}  // namespace gpuwatch::attribute
