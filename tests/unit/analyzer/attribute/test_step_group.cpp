// SPDX-License-Identifier: Apache-2.0
// Ranks whose steps are made up: each has its own work of every step, and waits in its exchange for the
// slowest.
#include "analyzer/attribute/step_group.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "run_builder.h"

namespace gpuwatch::attribute {
namespace {

using model::Ns;
using test::ms;

constexpr double kExchangeMs = 2;

struct Work {
  double compute_ms = 50, other_ms = 0;
  Category other = Category::InputWait;
};
using WorkOf = std::function<Work(size_t rank, size_t step)>;

struct Ranks {
  model::Run run;
  std::vector<RankAttribution> rows;

  // `waiting`: the category of an exchange. Steps of different ranks begin `apart_ms` after each other.
  void add(size_t ranks, size_t steps, const WorkOf& work, Category waiting = Category::CommHost,
           Ns begin = ms(1000), double apart_ms = 0) {
    const size_t first = rows.size();
    for (size_t r = 0; r < ranks; ++r) {
      model::Process& process = run.processes.emplace_back();
      process.rank = int(r);
      process.pid = uint32_t(100 + run.processes.size());
      rows.emplace_back().process = uint32_t(run.processes.size() - 1);
    }
    Ns time = begin;
    for (size_t s = 0; s < steps; ++s) {
      double slowest = 0;
      for (size_t r = 0; r < ranks; ++r)
        slowest = std::max(slowest, work(r, s).compute_ms + work(r, s).other_ms);
      for (size_t r = 0; r < ranks; ++r) {
        const Work own = work(r, s);
        const Ns offset = ms(apart_ms * double(r));
        StepAttribution step{{time + offset, time + offset + ms(slowest + kExchangeMs), 1}};
        step.times[size_t(Category::Compute)] = ms(own.compute_ms);
        step.times[size_t(own.other)] += ms(own.other_ms);
        step.times[size_t(waiting)] += ms(slowest + kExchangeMs - own.compute_ms - own.other_ms);
        rows[first + r].series.steps.push_back(step.step);
        rows[first + r].steps.push_back(step);
      }
      time += ms(slowest + kExchangeMs);
    }
  }
  std::vector<StepGroup> groups() const { return step_groups(run, rows); }
};

// All compute for 50 ms; one of them waits for data first.
WorkOf late_by(size_t late, double wait_ms) {
  return [=](size_t rank, size_t) { return Work{50, rank == late ? wait_ms : 0}; };
}

TEST(StepGroup, NamesTheRankThatTheOthersWaitFor) {
  Ranks ranks;
  ranks.add(2, 20, late_by(1, 100));
  const auto groups = ranks.groups();
  ASSERT_EQ(groups.size(), 1u);
  const StepGroup& group = groups[0];
  ASSERT_TRUE(group.late);
  EXPECT_EQ(group.late->member, 1u);
  EXPECT_EQ(group.late->bottleneck, Bottleneck::Input);
  EXPECT_EQ(group.late->category, Category::InputWait);
  EXPECT_NEAR(group.late->own_ms - group.late->others_ms, 100, 1e-6);
  EXPECT_NEAR(group.late->others_wait_ms, 100, 1e-6);
  EXPECT_NEAR(group.step_ms, 152, 1e-6);
  EXPECT_NEAR(group.step_without_ms(1), 52, 1e-6);  // the exchange itself stays
  EXPECT_NEAR(group.members[0].waiting_ms, 100, 1e-6);
  EXPECT_NEAR(group.members[1].waiting_ms, 0, 1e-6);
}

// Two runs of a sweep, as long as each other, whose rows are interleaved.
TEST(StepGroup, RanksOfAnotherLauncherAreAnotherJobs) {
  Ranks ranks;
  ranks.add(2, 20, late_by(1, 100));
  ranks.add(2, 20, late_by(1, 100));
  for (size_t i = 0; i < 4; ++i) ranks.run.processes[i].parent_pid = i < 2 ? 1 : 2;
  const std::vector<RankAttribution> rows = ranks.rows;
  ranks.rows = {rows[0], rows[2], rows[3], rows[1]};
  const auto groups = ranks.groups();
  ASSERT_EQ(groups.size(), 2u);
  for (const StepGroup& group : groups)
    for (const GroupMember& member : group.members)
      EXPECT_EQ(ranks.run.processes[member.process].parent_pid,
                ranks.run.processes[group.members.front().process].parent_pid);
}

TEST(StepGroup, SaysWhatHoldsItUp) {
  for (const auto& [other, bottleneck] : {std::pair{Category::Compute, Bottleneck::Compute},
                                          {Category::Checkpoint, Bottleneck::Host},
                                          {Category::Gc, Bottleneck::Host},
                                          {Category::Sched, Bottleneck::Machine}}) {
    Ranks ranks;
    ranks.add(3, 20, [&](size_t rank, size_t) { return Work{50, rank == 0 ? 30.0 : 0, other}; });
    const auto groups = ranks.groups();
    ASSERT_EQ(groups.size(), 1u);
    ASSERT_TRUE(groups[0].late);
    EXPECT_EQ(groups[0].late->member, 0u);
    EXPECT_EQ(groups[0].late->bottleneck, bottleneck);
    EXPECT_EQ(groups[0].late->category, other);
  }
}

TEST(StepGroup, EqualRanksHaveNoStraggler) {
  Ranks ranks;
  ranks.add(4, 40, [](size_t rank, size_t step) { return Work{50 + double((7 * rank + 3 * step) % 5)}; });
  const auto groups = ranks.groups();
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_FALSE(groups[0].late);
}

TEST(StepGroup, RanksThatAreLateByTurnsAreNoStragglers) {
  Ranks ranks;
  ranks.add(2, 40, [](size_t rank, size_t step) { return Work{50, step % 2 == rank ? 40.0 : 0}; });
  const auto groups = ranks.groups();
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_FALSE(groups[0].late);
  EXPECT_NEAR(groups[0].members[0].waiting_ms, 20, 1e-6);
}

TEST(StepGroup, SavesOfOneRankNowAndThenAreEnough) {
  const auto saves = [](size_t every) {
    Ranks ranks;
    ranks.add(2, 30, [=](size_t rank, size_t step) {
      return Work{50, rank == 0 && step % every == 4 ? 100.0 : 0, Category::Checkpoint};
    });
    return ranks.groups().at(0).late;
  };
  ASSERT_TRUE(saves(5));
  EXPECT_EQ(saves(5)->category, Category::Checkpoint);
  EXPECT_FALSE(saves(30));  // once is an event
}

TEST(StepGroup, OfThreeRanksTheNextOneBoundsTheGain) {
  Ranks ranks;
  ranks.add(3, 20, [](size_t rank, size_t) { return Work{50 + 20 * double(rank)}; });
  const auto groups = ranks.groups();
  ASSERT_TRUE(groups.at(0).late);
  EXPECT_EQ(groups[0].late->member, 2u);
  EXPECT_NEAR(groups[0].step_without_ms(2), 72, 1e-6);
}

TEST(StepGroup, CollectivesOnTheDeviceTellTheSame) {
  Ranks ranks;
  ranks.add(2, 20, late_by(1, 30), Category::CommUnsplit);
  ASSERT_TRUE(ranks.groups().at(0).late);
}

TEST(StepGroup, ProcessesThatDoNotCommunicateAreJobsForThemselves) {
  Ranks ranks;
  ranks.add(
      2, 20, [](size_t, size_t) { return Work{}; }, Category::Compute);
  EXPECT_TRUE(ranks.groups().empty());
}

TEST(StepGroup, ARestartedJobIsAnotherGroup) {
  Ranks ranks;
  ranks.add(2, 20, late_by(1, 50));
  ranks.add(2, 20, late_by(0, 50), Category::CommHost, ms(60'000));
  const auto groups = ranks.groups();
  ASSERT_EQ(groups.size(), 2u);
  ASSERT_TRUE(groups[0].late && groups[1].late);
  EXPECT_EQ(groups[0].late_member()->row, 1u);
  EXPECT_EQ(groups[1].late_member()->row, 2u);
}

// Hosts were booted at different times; what they call the time of day is about the same.
TEST(StepGroup, ClocksOfHostsAreNotCompared) {
  Ranks ranks;
  ranks.add(2, 20, late_by(1, 50), Category::CommHost, ms(1000), 500'000);
  for (model::Process& process : ranks.run.processes) {
    process.start = ranks.rows[size_t(process.rank)].steps.front().step.begin;
    process.start_realtime_ns = ms(1e12) + ms(3 * process.rank);
  }
  const auto groups = ranks.groups();
  ASSERT_EQ(groups.size(), 1u);
  ASSERT_TRUE(groups[0].late);
  EXPECT_EQ(groups[0].late->member, 1u);
}

TEST(StepGroup, StepsThatOneRankDidNotRecordAreLeftOut) {
  Ranks ranks;
  ranks.add(2, 20, [](size_t rank, size_t step) { return Work{50 + double(step), rank == 1 ? 50.0 : 0}; });
  ranks.rows[0].steps.erase(ranks.rows[0].steps.begin(), ranks.rows[0].steps.begin() + 3);
  ranks.rows[1].steps.erase(ranks.rows[1].steps.begin() + 10);
  const auto groups = ranks.groups();
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].steps, 16u);
  EXPECT_NEAR(groups[0].members[0].waiting_ms, 50, 1e-6);
}

}  // namespace
}  // namespace gpuwatch::attribute
