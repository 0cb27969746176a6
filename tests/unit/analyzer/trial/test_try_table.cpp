// SPDX-License-Identifier: Apache-2.0
#include "analyzer/trial/try_table.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace gpuwatch::trial {
namespace {

TrialResult measured(double step_ms) {
  TrialResult result;
  result.steps = result.recorded_steps = 100;
  result.step_ms = step_ms;
  result.verdict = "INPUT-BOUND: training waits";
  return result;
}

Proposal workers(double expected) {
  Proposal proposal;
  proposal.finding = "dataloader-workers";
  proposal.settings = {"num_workers=4"};
  proposal.place = "/home/a/train.py:88";
  proposal.summary = "Set num_workers=4";
  proposal.snippet = "DataLoader(..., num_workers=4)";
  proposal.prediction = predict::Prediction{};
  proposal.prediction->speedup = {expected * 0.9, expected, expected * 1.1};
  return proposal;
}

TryRow row_of(std::optional<Proposal> change, double compared_ms, std::optional<TrialResult> result) {
  TryRow row;
  row.change = std::move(change);
  row.compared_ms = compared_ms;
  row.result = std::move(result);
  row.directory = "/tmp/trials/1";
  return row;
}

TEST(Proposal, NamesItsLoaderByPlace) {
  Proposal proposal = workers(2);
  EXPECT_EQ(proposal.request(), "num_workers=4@/home/a/train.py:88");
  EXPECT_EQ(proposal.words(), "num_workers=4 (train.py:88)");
  proposal.settings.push_back("non_blocking=True");
  EXPECT_EQ(proposal.request(), "num_workers=4@/home/a/train.py:88,non_blocking=True");
  proposal.place = "/home/a,b/train.py:88";
  EXPECT_EQ(proposal.request(), "num_workers=4@train.py:88,non_blocking=True")
      << "a comma separates settings";
}

TEST(Proposal, IsAppliedWhereAllItsSettingsAre) {
  Proposal proposal = workers(2);
  TrialResult result;
  EXPECT_FALSE(is_applied(proposal, result));
  result.applied = {"pin_memory=True (was False), num_workers=4 (was 0) at /home/a/train.py:88"};
  EXPECT_TRUE(is_applied(proposal, result));
  proposal.settings.push_back("non_blocking=True");
  EXPECT_FALSE(is_applied(proposal, result));
  result.applied.push_back("non_blocking=True");
  EXPECT_TRUE(is_applied(proposal, result));
  proposal.settings = {"num_workers=40"};
  EXPECT_FALSE(is_applied(proposal, result)) << "4 is of an earlier trial";
  result.applied = {"num_workers=40 (was 0)"};
  proposal.settings = {"num_workers=4"};
  EXPECT_FALSE(is_applied(proposal, result));
}

TEST(TryTable, ComparesPredictedWithMeasured) {
  TryOutcome outcome;
  outcome.rows.push_back(row_of(std::nullopt, 0, measured(100)));
  outcome.rows.push_back(row_of(workers(2), 100, measured(48)));
  outcome.rows.back().is_kept = true;
  outcome.rows.push_back(row_of(workers(1.5), 48, measured(47)));
  EXPECT_TRUE(outcome.rows[1].is_inside());
  EXPECT_FALSE(outcome.rows[2].is_inside());
  const std::string text = try_text(outcome, {});
  EXPECT_NE(text.find("48.0 ms a step, 2.1x"), std::string::npos) << text;
  EXPECT_NE(text.find("predicted 50.0 ms (45.5-55.6)"), std::string::npos) << text;
  EXPECT_NE(text.find("kept, as predicted"), std::string::npos);
  EXPECT_NE(text.find("no gain, taken back"), std::string::npos);
  EXPECT_NE(text.find("together   100 -> 48.0 ms a step, 2.1x"), std::string::npos) << text;
  EXPECT_NE(text.find("DataLoader(..., num_workers=4)"), std::string::npos);
  EXPECT_NE(text.find("gpuwatch analyze /tmp/trials/1"), std::string::npos) << text;
}

TEST(TryTable, SaysThatNothingWasTriedAndNoMore) {
  TryOutcome outcome;
  outcome.rows.push_back(row_of(std::nullopt, 0, measured(100)));
  const std::string text = try_text(outcome, {});
  EXPECT_NE(text.find("none was tried"), std::string::npos) << text;
  EXPECT_EQ(text.find("makes this job faster"), std::string::npos) << text;
}

// Beside other programs two workers gained too uncertainly for a prediction: that is when a trial is worth
// most.
TEST(TryTable, TriesWhatCannotBePredicted) {
  Proposal proposal = workers(2);
  proposal.prediction.reset();
  EXPECT_EQ(proposal.expected_speedup(), 1);
  proposal.uncertain_speedup = 1.4;
  EXPECT_EQ(proposal.expected_speedup(), 1.4);
  TryOutcome outcome;
  outcome.rows.push_back(row_of(std::nullopt, 0, measured(100)));
  outcome.rows.push_back(row_of(proposal, 100, measured(60)));
  outcome.rows.back().is_kept = true;
  const std::string text = try_text(outcome, {});
  EXPECT_NE(text.find("predicted nothing: the run leaves too much open"), std::string::npos) << text;
  EXPECT_NE(text.find("kept"), std::string::npos);
  EXPECT_TRUE(nlohmann::json::parse(try_json(outcome))["trials"][1]["inside"].is_null());
}

TEST(TryTable, TellsWhatFailed) {
  TryOutcome outcome;
  outcome.rows.push_back(row_of(std::nullopt, 0, measured(100)));
  outcome.rows.push_back(row_of(workers(2), 100, std::nullopt));
  outcome.rows.back().problem = "ended with exit code 1 after 3 s: no \x1b[31mworkers";
  const std::string text = try_text(outcome, {});
  EXPECT_NE(text.find("not measured"), std::string::npos);
  EXPECT_NE(text.find("ended with exit code 1"), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << "the job's own text does nothing in a terminal";
  EXPECT_NE(text.find("nothing that was tried makes this job faster"), std::string::npos);
  const auto json = nlohmann::json::parse(try_json(outcome));
  EXPECT_EQ(json["schema"], "gpuwatch.try.v1");
  EXPECT_TRUE(json["trials"][1]["step_ms"].is_null());
  EXPECT_TRUE(json["trials"][1]["inside"].is_null());
  EXPECT_FALSE(json["trials"][1]["kept"]);
}

TEST(TryTable, NothingWasMeasured) {
  TryOutcome outcome;
  outcome.rows.push_back(row_of(std::nullopt, 0, std::nullopt));
  outcome.rows.back().problem = "no training step was seen in 120 s";
  outcome.rows.back().output = "/tmp/trials/1.txt";
  EXPECT_NE(try_text(outcome, {}).find("no training step was seen"), std::string::npos);
  EXPECT_NE(try_text(outcome, {}).find("read /tmp/trials/1.txt"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(try_json(outcome))["trials"].size(), 1);
}

}  // namespace
}  // namespace gpuwatch::trial
