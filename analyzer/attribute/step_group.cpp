// SPDX-License-Identifier: Apache-2.0
#include "analyzer/attribute/step_group.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace gpuwatch::attribute {
namespace {

using model::Ns;

constexpr double kNsPerMs = 1e6;

// Of a step that takes less, nothing is said.
constexpr double kCommunicates = 0.01;
constexpr size_t kLeastSteps = 2;

// When the row's recorded steps were, on a clock that all hosts have about the same.
model::TimeSpan span_of(const model::Run& run, const RankAttribution& row) {
  const model::Process& process = run.processes.at(row.process);
  const Ns offset = process.start_realtime_ns > 0 ? process.start_realtime_ns - process.start : 0;
  return {row.steps.front().step.begin + offset, row.steps.back().step.end + offset};
}

bool overlap(model::TimeSpan a, model::TimeSpan b) {
  const Ns common = std::min(a.end, b.end) - std::max(a.begin, b.begin);
  return 2 * common > std::min(a.length(), b.length());
}

// One launcher starts the ranks of a host: two jobs of a sweep may be as long, at the same time.
bool may_be_one_job(const model::Process& a, const model::Process& b) {
  if (a.world_size != b.world_size || b.world_size == 1) return false;
  return a.host != b.host || a.parent_pid == b.parent_pid;
}

// Rows of one job at one time, each rank once: a restarted rank has another process.
std::vector<std::vector<size_t>> rows_at_one_time(const model::Run& run,
                                                  const std::vector<RankAttribution>& rows) {
  std::vector<std::vector<size_t>> sets;
  std::vector<uint32_t> seen;  // processes: one of several GPUs stands for all
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].steps.size() < kLeastSteps || std::ranges::find(seen, rows[i].process) != seen.end())
      continue;
    seen.push_back(rows[i].process);
    const int rank = run.processes.at(rows[i].process).rank;
    const auto fits = [&](const std::vector<size_t>& set) {
      return may_be_one_job(run.processes.at(rows[set.front()].process), run.processes.at(rows[i].process)) &&
             overlap(span_of(run, rows[set.front()]), span_of(run, rows[i])) &&
             std::ranges::none_of(set, [&](size_t other) {
               return rank >= 0 && run.processes.at(rows[other].process).rank == rank;
             });
    };
    const auto set = std::ranges::find_if(sets, fits);
    if (set == sets.end())
      sets.push_back({i});
    else
      set->push_back(i);
  }
  std::erase_if(sets, [](const std::vector<size_t>& set) { return set.size() < 2; });
  return sets;
}

double ms_in(const CategoryTimes& times, Bottleneck bottleneck) {
  Ns sum = 0;
  for (size_t i = 0; i < kCategoryCount; ++i)
    if (kCategories[i].bottleneck == bottleneck) sum += times[i];
  return double(sum) / kNsPerMs;
}

using Steps = std::vector<const StepAttribution*>;

// Recorded steps by their number in the series, null where one was not recorded.
Steps by_number(const RankAttribution& row) {
  Steps steps(row.series.steps.size());
  for (const StepAttribution& step : row.steps) {
    const auto at = std::ranges::lower_bound(row.series.steps, step.step.begin, {}, &model::Step::begin);
    if (at != row.series.steps.end() && at->begin == step.step.begin)
      steps[static_cast<size_t>(at - row.series.steps.begin())] = &step;
  }
  return steps;
}

// The steps that were recorded on all rows, one list a row.
std::vector<Steps> common_steps(const std::vector<RankAttribution>& rows, const std::vector<size_t>& set) {
  std::vector<Steps> all, common(set.size());
  size_t count = std::numeric_limits<size_t>::max();
  for (const size_t row : set) {
    all.push_back(by_number(rows[row]));
    count = std::min(count, all.back().size());
  }
  for (size_t step = 0; step < count; ++step) {
    if (std::ranges::any_of(all, [&](const auto& steps) { return !steps[step]; })) continue;
    for (size_t m = 0; m < all.size(); ++m) common[m].push_back(all[m][step]);
  }
  return common;
}

// Ranks that wait for each other in every step take the same time for it; the last exchange need not be at
// its end.
bool are_together(const std::vector<Steps>& steps) {
  constexpr double kSameMean = 0.05, kSameStep = 0.25;
  if (steps.front().size() < kLeastSteps) return false;
  const auto length = [](const StepAttribution* step) { return double(step->step.end - step->step.begin); };
  double first = 0;
  for (const StepAttribution* step : steps.front()) first += length(step);
  for (const auto& other : steps) {
    double sum = 0, apart = 0;
    for (size_t i = 0; i < other.size(); ++i) {
      sum += length(other[i]);
      apart += std::abs(length(other[i]) - length(steps.front()[i]));
    }
    if (std::abs(sum - first) > kSameMean * first || apart > kSameStep * first) return false;
  }
  return true;
}

void add_step(StepGroup& group, const std::vector<Steps>& steps, size_t number,
              std::vector<double>& caused_ms) {
  std::vector<double> communicating_ms;
  for (const auto& of_member : steps)
    communicating_ms.push_back(ms_in(of_member[number]->times, Bottleneck::Communication));
  const auto last = std::ranges::min_element(communicating_ms);
  double waiting_ms = 0, least_waiting_ms = std::numeric_limits<double>::max();
  double step_ms = 0;
  for (size_t m = 0; m < group.members.size(); ++m) {
    const StepAttribution& step = *steps[m][number];
    const double length_ms = double(step.step.end - step.step.begin) / kNsPerMs;
    const double waits_ms = communicating_ms[m] - *last;
    GroupMember& member = group.members[m];
    member.own_ms.push_back(length_ms - waits_ms);
    member.waiting_ms += waits_ms;
    for (size_t i = 0; i < kCategoryCount; ++i) member.times[i] += step.times[i];
    step_ms += length_ms / double(group.members.size());
    waiting_ms += waits_ms;
    if (m != size_t(last - communicating_ms.begin())) least_waiting_ms = std::min(least_waiting_ms, waits_ms);
  }
  const auto slowest = static_cast<size_t>(last - communicating_ms.begin());
  caused_ms[slowest] += waiting_ms;
  group.members[slowest].times_last += least_waiting_ms >= kLateShare * step_ms;
  group.step_ms += step_ms;
}

// What takes longer on the late member than on the others.
void explain(const StepGroup& group, LateMember& late) {
  const double others = double(group.members.size() - 1);
  const auto excess = [&](auto time_of) {
    double rest = 0;
    for (size_t m = 0; m < group.members.size(); ++m)
      if (m != late.member) rest += time_of(group.members[m]) / others;
    return std::pair{time_of(group.members[late.member]), rest};
  };
  double most = 0;
  for (size_t b = 0; b < kBottleneckCount; ++b) {
    const auto bottleneck = static_cast<Bottleneck>(b);
    if (bottleneck == Bottleneck::Communication) continue;
    const auto [own, rest] = excess([&](const GroupMember& m) { return group.times_ms(m, bottleneck); });
    if (own - rest <= most) continue;
    most = own - rest;
    late.bottleneck = bottleneck;
    late.own_ms = own;
    late.others_ms = rest;
  }
  double largest = 0;
  for (size_t i = 0; i < kCategoryCount; ++i) {
    if (!late.bottleneck || kCategories[i].bottleneck != *late.bottleneck) continue;
    const auto [own, rest] = excess([&](const GroupMember& m) { return double(m.times[i]); });
    if (own - rest <= largest) continue;
    largest = own - rest;
    late.category = static_cast<Category>(i);
  }
}

std::optional<LateMember> find_late(const StepGroup& group) {
  LateMember late;
  const auto latest = std::ranges::max_element(group.members, {}, &GroupMember::waited_for);
  late.member = static_cast<size_t>(latest - group.members.begin());
  if (latest->waited_for < kLateOfWaiting || latest->times_last < kTimesLate) return std::nullopt;
  if (group.step_without_ms(late.member) > (1 - kLateShare) * group.step_ms) return std::nullopt;
  for (size_t m = 0; m < group.members.size(); ++m)
    if (m != late.member)
      late.others_wait_ms += group.members[m].waiting_ms / double(group.members.size() - 1);
  explain(group, late);
  return late;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / double(std::max<size_t>(1, values.size()));
}

// The largest of the ranks'.
double compute_spread(const std::vector<Steps>& steps) {
  double largest = 0;
  for (const Steps& of_member : steps) {
    std::vector<double> times;
    for (const StepAttribution* step : of_member) times.push_back(ms_in(step->times, Bottleneck::Compute));
    const double usual = mean(times);
    for (double& time : times) time = (time - usual) * (time - usual);
    if (usual > 0) largest = std::max(largest, std::sqrt(mean(times)) / usual);
  }
  return largest;
}

Imbalance imbalance_of(const StepGroup& group, const std::vector<Steps>& steps) {
  Imbalance found;
  double longer_ms = 0, computing_longer_ms = 0;
  for (size_t number = 0; number < group.steps; ++number) {
    std::vector<double> own, computing;
    for (size_t m = 0; m < steps.size(); ++m) {
      own.push_back(group.members[m].own_ms[number]);
      computing.push_back(ms_in(steps[m][number]->times, Bottleneck::Compute));
    }
    const auto last = static_cast<size_t>(std::ranges::max_element(own) - own.begin());
    longer_ms += own[last] - mean(own);
    computing_longer_ms += computing[last] - mean(computing);
    found.balanced_ms += mean(own) / double(group.steps);
  }
  for (const GroupMember& member : group.members)
    found.wait_ms += member.waiting_ms / double(group.members.size());
  if (longer_ms > 0) found.of_computing = std::clamp(computing_longer_ms / longer_ms, 0.0, 1.0);
  found.compute_spread = compute_spread(steps);
  return found;
}

std::optional<StepGroup> make_group(const std::vector<RankAttribution>& rows,
                                    const std::vector<size_t>& set) {
  const auto steps = common_steps(rows, set);
  if (!are_together(steps)) return std::nullopt;
  StepGroup group;
  group.steps = steps.front().size();
  for (const size_t row : set)
    group.members.emplace_back(GroupMember{.row = row, .process = rows[row].process});
  for (size_t m = 0; m < set.size(); ++m)
    for (const StepAttribution* step : steps[m])
      group.members[m].steps.push_back(static_cast<size_t>(step - rows[set[m]].steps.data()));
  std::vector<double> caused_ms(set.size(), 0);
  for (size_t step = 0; step < group.steps; ++step) add_step(group, steps, step, caused_ms);
  const double count = double(group.steps);
  const double waiting_ms = std::accumulate(caused_ms.begin(), caused_ms.end(), 0.0);
  double communicating_ms = 0;
  group.step_ms /= count;
  for (size_t m = 0; m < set.size(); ++m) {
    GroupMember& member = group.members[m];
    member.waiting_ms /= count;
    member.waited_for = waiting_ms > 0 ? caused_ms[m] / waiting_ms : 0;
    communicating_ms = std::max(communicating_ms, group.times_ms(member, Bottleneck::Communication));
  }
  if (communicating_ms < kCommunicates * group.step_ms) return std::nullopt;
  group.late = find_late(group);
  group.imbalance = imbalance_of(group, steps);
  return group;
}

}  // namespace

double mean_step_ms(const OwnWork& work) {
  const size_t steps = work.empty() ? 0 : work.front().size();
  double sum = 0;
  for (size_t step = 0; step < steps; ++step) {
    double slowest = 0;
    for (const std::vector<double>& of_member : work) slowest = std::max(slowest, of_member[step]);
    sum += slowest;
  }
  return steps > 0 ? sum / double(steps) : 0;
}

double StepGroup::step_without_ms(size_t member) const {
  OwnWork work;
  for (size_t m = 0; m < members.size(); ++m)
    if (m != member) work.push_back(members[m].own_ms);
  return mean_step_ms(work);
}

double StepGroup::times_ms(const GroupMember& member, Bottleneck bottleneck) const {
  return steps > 0 ? ms_in(member.times, bottleneck) / double(steps) : 0;
}

std::vector<StepGroup> step_groups(const model::Run& run, const std::vector<RankAttribution>& rows) {
  std::vector<StepGroup> groups;
  for (const std::vector<size_t>& set : rows_at_one_time(run, rows))
    if (std::optional<StepGroup> group = make_group(rows, set)) groups.push_back(std::move(*group));
  return groups;
}

const StepGroup* group_of(const std::vector<StepGroup>& groups, size_t row) {
  for (const StepGroup& group : groups)
    if (member_of(group, row)) return &group;
  return nullptr;
}

const GroupMember* member_of(const StepGroup& group, size_t row) {
  const auto member = std::ranges::find(group.members, row, &GroupMember::row);
  return member == group.members.end() ? nullptr : &*member;
}

std::string rank_name(const model::Process& process) {
  return process.rank >= 0 ? "rank " + std::to_string(process.rank)
                           : "process " + std::to_string(process.pid);
}

}  // namespace gpuwatch::attribute
