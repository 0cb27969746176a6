// SPDX-License-Identifier: Apache-2.0
// Ranks that take their steps together. A step in which ranks exchange gradients is as long as the slowest
// rank's work, and who is done earlier waits. How long each waits is known from all of them: of one step, the
// rank that communicates least came last, and what the others communicate longer is waiting for it. Clocks of
// different hosts are not compared; the first step of one rank is the first of the others. Milliseconds.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/attribute/attribution.h"

namespace gpuwatch::attribute {

struct GroupMember {
  size_t row = 0;  // index into the rows that the group was found in
  uint32_t process = model::kNone;
  double waiting_ms = 0;       // a step, for later ranks
  double waited_for = 0;       // share of all waiting in the group: while this one came last
  size_t times_last = 0;       // steps in which the others waited for this one
  std::vector<size_t> steps;   // the common ones, as indices into RankAttribution::steps
  std::vector<double> own_ms;  // of each: without waiting for later ranks
  CategoryTimes times{};       // sum over them
};

// One rank that the others wait for, again and again: without it the step is shorter by this share, as much
// of all waiting is for it, and in so many steps.
inline constexpr double kLateShare = 0.05, kLateOfWaiting = 0.6;
inline constexpr size_t kTimesLate = 3;
struct LateMember {
  size_t member = 0;  // index into StepGroup::members
  // What takes longer on it than on the others, and the largest part of that. None: nothing does.
  std::optional<Bottleneck> bottleneck;
  Category category = Category::Unknown;
  double own_ms = 0, others_ms = 0;  // a step, of that bottleneck
  double others_wait_ms = 0;         // mean of the other ranks
};

// Ranks that are late by turns: one has more to do in this step, another in the next. Milliseconds a step.
struct Imbalance {
  double wait_ms = 0;         // mean of the ranks
  double balanced_ms = 0;     // the step if all ranks had the same work in it
  double of_computing = 0;    // of what the last rank of a step works longer than the mean: computing
  double compute_spread = 0;  // of one rank's computing from step to step: standard deviation, of its mean
};

struct StepGroup {
  std::vector<GroupMember> members;  // at least two
  size_t steps = 0;                  // recorded on all of them
  double step_ms = 0;
  std::optional<LateMember> late;  // none: no one rank holds the others up
  Imbalance imbalance;

  const GroupMember* late_member() const { return late ? &members[late->member] : nullptr; }
  double times_ms(const GroupMember& member, Bottleneck bottleneck) const;
  // The mean step of all members but one.
  double step_without_ms(size_t member) const;
};

// By member and step: what each member works on its own. The step is the slowest member's.
using OwnWork = std::vector<std::vector<double>>;
double mean_step_ms(const OwnWork& work);

// Rows of ranks that train at the same time and step by step together; a row is in one group at most. Linear
// in steps.
std::vector<StepGroup> step_groups(const model::Run& run, const std::vector<RankAttribution>& rows);

// Null where the row is in none.
const StepGroup* group_of(const std::vector<StepGroup>& groups, size_t row);
const GroupMember* member_of(const StepGroup& group, size_t row);

// "rank 3"; of a process whose rank is not known "process 4711".
std::string rank_name(const model::Process& process);

}  // namespace gpuwatch::attribute
