// SPDX-License-Identifier: Apache-2.0
#include "analyzer/page/step_choice.h"

#include <gtest/gtest.h>

#include <map>

#include "analyzer/page/step_series.h"

namespace gpuwatch::page {
namespace {

using attribute::Category;
using model::Ns;

attribute::RankAttribution rank_of(const std::vector<Ns>& milliseconds,
                                   Category category = Category::Compute) {
  attribute::RankAttribution rank;
  Ns at = 0;
  for (const Ns ms : milliseconds) {
    attribute::StepAttribution step{.step = {.begin = at, .end = at + ms * 1'000'000}};
    at = step.step.end;
    step.times[size_t(category)] = ms * 1'000'000;
    rank.steps.push_back(step);
  }
  return rank;
}

std::map<std::string, size_t> chosen(const std::vector<Ns>& milliseconds, bool is_shown_rank = true) {
  std::map<std::string, size_t> begins;
  for (const ChosenSteps& steps : choose_steps(rank_of(milliseconds), is_shown_rank))
    begins[steps.why] = steps.begin;
  return begins;
}

TEST(StepChoice, TypicalSlowFastAndFirstOfALongRun) {
  std::vector<Ns> lengths(100, 20);
  lengths[0] = 30;
  lengths[40] = 90;
  lengths[60] = 10;
  for (const size_t i : {5, 6, 7, 8, 9}) lengths[i] = 50;
  const auto steps = chosen(lengths);
  EXPECT_EQ(lengths[steps.at("typical")], 20);
  EXPECT_EQ(steps.at("slowest"), 40u);
  EXPECT_EQ(steps.at("fastest"), 60u);
  EXPECT_EQ(steps.at("first"), 0u);
  EXPECT_EQ(lengths[steps.at("slower than 95%")], 50);
  EXPECT_EQ(chosen(lengths, false).size(), 1u);
}

TEST(StepChoice, ShortRuns) {
  EXPECT_TRUE(choose_steps(rank_of({}), true).empty());
  EXPECT_EQ(choose_steps(rank_of({7}), true).size(), 1u);
  EXPECT_EQ(choose_steps(rank_of({7, 8}), true).size(), 2u);
  EXPECT_EQ(choose_steps(rank_of({7, 8, 9, 10}), true).size(), 5u);  // three in a row, too
  for (const ChosenSteps& steps : choose_steps(rank_of({7, 8, 9}), true)) EXPECT_LE(steps.end, 3u);
}

TEST(ChangeWords, OfASteadyRun) {
  const std::vector<std::string> words = change_words(rank_of(std::vector<Ns>(100, 20)));
  ASSERT_EQ(words.size(), 1u);
  EXPECT_EQ(words[0], "Over the run, the length of a step did not change.");
}

TEST(ChangeWords, OfSlowStepsAndOfADrift) {
  std::vector<Ns> lengths(90, 20);
  for (size_t i = 60; i < 90; ++i) lengths[i] = 30;
  const std::vector<std::string> words = change_words(rank_of(lengths, Category::InputTransform));
  ASSERT_EQ(words.size(), 2u);
  EXPECT_EQ(words[1],
            "From the first to the last third of the steps, a step went from 20.0 to 30.0 ms: more data "
            "loading 10.0 ms.");
}

TEST(ChangeWords, FewStepsSayNothing) {
  EXPECT_TRUE(change_words(rank_of({1, 2, 3})).empty());
}

}  // namespace
}  // namespace gpuwatch::page
