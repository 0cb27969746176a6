// SPDX-License-Identifier: Apache-2.0
#include "analyzer/attribute/group_time.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace gpuwatch::attribute {
namespace {

using model::DeviceOp;
using model::Ns;

// The part of spans that lies within the steps, which are in order and disjoint.
class StepTime {
 public:
  explicit StepTime(const std::vector<StepAttribution>& steps) : steps_(steps) {
    before_.push_back(0);
    for (const StepAttribution& step : steps_)
      before_.push_back(before_.back() + step.step.end - step.step.begin);
  }

  Ns within(Ns begin, Ns end) const { return std::max<Ns>(0, until(end) - until(begin)); }

 private:
  // Time in steps before a moment.
  Ns until(Ns time) const {
    const auto after =
        std::ranges::upper_bound(steps_, time, {}, [](const StepAttribution& s) { return s.step.begin; });
    if (after == steps_.begin()) return 0;
    const auto i = static_cast<size_t>(after - steps_.begin()) - 1;
    return before_[i] + std::min(time, steps_[i].step.end) - steps_[i].step.begin;
  }

  const std::vector<StepAttribution>& steps_;
  std::vector<Ns> before_;  // of each step: time in the steps before it
};

// Which groups run, from one begin or end of an operation to the next.
class Running {
 public:
  Running(const std::vector<StepAttribution>& steps, std::vector<GroupTime>& times)
      : steps_(steps), times_(times), active_(times.size()) {}

  void begin(const DeviceOp& op, uint16_t group) {
    advance(op.begin);
    if (active_[group]++ == 0) toggle(group, 1);
    ends_.emplace(op.end, group);
  }

  void finish() {
    while (!ends_.empty()) end_first();
  }

 private:
  void advance(Ns time) {
    while (!ends_.empty() && ends_.top().first <= time) end_first();
    account(time);
  }

  void end_first() {
    const auto [end, group] = ends_.top();
    account(end);
    ends_.pop();
    if (--active_[group] == 0) toggle(group, -1);
  }

  void account(Ns time) {
    if (groups_ == 1 && time > at_) times_[alone_].alone_ns += steps_.within(at_, time);
    at_ = std::max(at_, time);
  }

  // The exclusive or of the groups that run is the group where only one does.
  void toggle(uint16_t group, int by) {
    groups_ += by;
    alone_ ^= group;
  }

  StepTime steps_;
  std::vector<GroupTime>& times_;
  std::vector<size_t> active_;
  std::priority_queue<std::pair<Ns, uint16_t>, std::vector<std::pair<Ns, uint16_t>>, std::greater<>> ends_;
  int groups_ = 0;
  uint16_t alone_ = 0;
  Ns at_ = 0;
};

}  // namespace

std::vector<GroupTime> group_times(const model::Device& device, const RankAttribution& row,
                                   std::span<const uint16_t> groups, size_t count) {
  std::vector<GroupTime> times(count);
  StepTime steps(row.steps);
  Running running(row.steps, times);
  for (size_t i = 0; i < std::min(groups.size(), device.operations.size()); ++i) {
    const DeviceOp& op = device.operations[i];
    if (groups[i] >= count || op.end <= op.begin) continue;
    const Ns within = steps.within(op.begin, op.end);
    times[groups[i]].ns += within;
    times[groups[i]].count += within > 0;
    running.begin(op, groups[i]);
  }
  running.finish();
  return times;
}

}  // namespace gpuwatch::attribute
