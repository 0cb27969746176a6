// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/host_gaps.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "analyzer/advise/host_calls.h"
#include "analyzer/advise/idle_gaps.h"
#include "analyzer/model/quantile.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;
using predict::HostEvent;
using trace::OpClass;

// Covered by other rules: saving, logging, garbage collection, reading.
bool has_own_rule(const model::HostCall& call) {
  const OpClass op_class = call.op_class;
  const bool reads_file = reads_input(op_class) && op_class != OpClass::Receive;
  return reads_file || writes_output(op_class) || op_class == OpClass::Checkpoint ||
         op_class == OpClass::GarbageCollection;
}

// Preparing an optimizer's first launch takes PyTorch milliseconds where there are many parameters: that is
// no work of the script. By event, the part of the gap before a launch that is within an optimizer's step. 0
// where the step calls the script back (a closure, as Lightning's), which other threads' launches show.
std::vector<double> ns_in_optimizer(const RuleInput& input) {
  const std::vector<HostEvent>& events = input.streams->events;
  const auto calls_back = [&](const HostEvent& event) {
    return event.thread != input.process.training_thread && event.op_count > 0 &&
           input.streams->ops[event.first_op].is_of_optimizer;
  };
  if (std::ranges::any_of(events, calls_back)) return std::vector<double>(events.size(), 0);
  std::vector<double> result =
      ns_before_events(input, events, training_calls(input, [](const model::HostCall& call) {
                         return call.op_class == OpClass::OptimizerStep;
                       }));
  for (size_t i = 0; i < events.size(); ++i)
    if (events[i].op_class != OpClass::Launch) result[i] = 0;  // an optimizer on the CPU copies its results
  return result;
}

// Numbers the places of a step: the calls of one function from one address, in order. A thread that loses its
// core is late at another place in each step.
class PlaceNumbers {
 public:
  explicit PlaceNumbers(const RuleInput& input) : input_(input) {}

  uint32_t place_of(const HostEvent& event) {
    if (event.step != step_) calls_.clear();
    step_ = event.step;
    const model::Thread& thread = input_.process.threads[event.thread];
    const model::HostCall& call = thread.calls[event.call];
    const Function function{event.thread, model::caller_of(thread, call), call.operation};
    const std::pair<Function, uint32_t> place{function, calls_[function]++};
    return numbers_.try_emplace(place, uint32_t(numbers_.size())).first->second;
  }

 private:
  using Function = std::tuple<uint32_t, uint64_t, uint16_t>;
  const RuleInput& input_;
  uint32_t step_ = model::kNone;
  std::map<Function, uint32_t> calls_;  // of this step so far
  std::map<std::pair<Function, uint32_t>, uint32_t> numbers_;
};

double ratio(double part, double whole) {
  return whole > 0 ? std::min(1.0, part / whole) : 0;
}

}  // namespace

HostGaps::HostGaps(const RuleInput& input) : input_(input) {
  note_launches();
  find_own_work();
}

void HostGaps::note_launches() {
  std::vector<double> gaps;
  double graphs = 0, graphs_ns = 0, launches_ns = 0;
  for (const HostEvent& event : input_.streams->events) {
    const bool is_graph = event.op_class == OpClass::GraphLaunch;
    if (!is_graph && event.op_class != OpClass::Launch) continue;
    graphs += is_graph;
    (is_graph ? graphs_ns : launches_ns) += event.gap_ns + event.cost_ns;
    if (!is_graph) gaps.push_back(event.gap_ns);
  }
  const double steps = std::max(1.0, double(input_.streams->steps));
  launches_a_step_ = double(gaps.size()) / steps;
  has_graphs_ = graphs >= kRecurs * steps;
  launches_graphs_ = has_graphs_ && graphs_ns >= launches_ns;
  if (!gaps.empty()) median_dispatch_ns_ = model::median(std::move(gaps));
  longest_dispatch_ns_ = launches_graphs_ ? kLongDispatchNs
                         : launches_a_step_ < kFewLaunches
                             ? kShortOwnWorkNs
                             : std::clamp(kStandsOut * median_dispatch_ns_, kShortOwnWorkNs, kLongDispatchNs);
}

void HostGaps::find_own_work() {
  const std::vector<HostEvent>& events = input_.streams->events;
  std::vector<double> work_ns = ns_before_events(input_, events, training_calls(input_, has_own_rule));
  HostCalls saves = training_calls(
      input_, [](const model::HostCall& call) { return call.op_class == OpClass::Checkpoint; });
  add_what_follows(input_, saves);
  for (size_t i = 0; i < saves.following_ns.size(); ++i) work_ns[i] += saves.following_ns[i];
  const std::vector<double> optimizing_ns = ns_in_optimizer(input_);
  std::vector<uint32_t> place_of(events.size());
  std::vector<uint32_t> long_gaps;  // by place
  PlaceNumbers places(input_);
  IdleGaps idle(input_);
  for (size_t i = 0; i < events.size(); ++i) {
    const IdleGap gap = idle.before(events[i]);
    work_ns[i] = std::max(0.0, events[i].gap_ns - work_ns[i] - optimizing_ns[i] - gap.delay_ns);
    // Attribution knows what a long gap was: inside an operator of the framework, it is not the script's. The
    // delay is no part of it any more.
    const bool is_known = !input_.process.imported_from.empty() || work_ns[i] >= kLongDispatchNs;
    if (is_known && gap.script_ns < gap.other_ns) work_ns[i] = 0;
    place_of[i] = places.place_of(events[i]);
    if (place_of[i] >= long_gaps.size()) long_gaps.resize(place_of[i] + 1);
    long_gaps[place_of[i]] += work_ns[i] >= longest_dispatch_ns_;
  }
  own_ns_.assign(events.size(), 0);
  for (size_t i = 0; i < events.size(); ++i) {
    const bool recurs = long_gaps[place_of[i]] >= kRecurs * double(input_.streams->steps);
    if (events[i].thread != input_.process.training_thread || work_ns[i] < longest_dispatch_ns_) continue;
    if (recurs) own_ns_[i] = work_ns[i];
  }
  split_shares(work_ns, saves.total_following_ns);
}

// Attribution tells them apart by length alone: which part of either is the script's.
void HostGaps::split_shares(const std::vector<double>& work_ns, double of_saves_ns) {
  double short_ns = 0, long_ns = 0, own_short_ns = 0, own_long_ns = 0;
  for (size_t i = 0; i < work_ns.size(); ++i) {
    const bool is_short = work_ns[i] <= kLongDispatchNs;
    (is_short ? short_ns : long_ns) += work_ns[i];
    (is_short ? own_short_ns : own_long_ns) += own_ns_[i];
  }
  const attribute::RankAttribution& rank = input_.rank;
  const double own_dispatch = rank.share(Category::LaunchDispatch) * ratio(own_short_ns, short_ns);
  const double of_saves = rank.wall_ns > 0 ? of_saves_ns / double(rank.wall_ns) : 0;
  const double script =
      std::max(0.0, rank.share(Category::HostCompute) + rank.share(Category::HostWait) - of_saves);
  own_share_ = script * ratio(own_long_ns, long_ns) + own_dispatch;
  launch_share_ = rank.share(Category::LaunchApi) + rank.share(Category::LaunchDispatch) +
                  rank.share(Category::DeviceLaunchGap) - own_dispatch;
}

}  // namespace gpuwatch::advise
