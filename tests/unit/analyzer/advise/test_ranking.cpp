// SPDX-License-Identifier: Apache-2.0
// Which of two findings comes first, by what is known of their gains.
#include <gtest/gtest.h>

#include "analyzer/advise/ranking.h"

namespace gpuwatch::advise {
namespace {

using attribute::Bottleneck;

Finding predicted(const char* id, Bottleneck bottleneck, double speedup) {
  Finding finding;
  finding.id = id;
  finding.lost_share = 1 - 1 / speedup;
  finding.bottleneck = bottleneck;
  finding.prediction.emplace();
  finding.prediction->metric = "step_ms";
  finding.prediction->speedup = {speedup, speedup, speedup};
  return finding;
}

Finding bound(const char* id, Bottleneck bottleneck, double speedup, Change change = {}) {
  Finding finding;
  finding.id = id;
  finding.lost_share = 1 - 1 / speedup;
  finding.bottleneck = bottleneck;
  finding.ceiling_speedup = speedup;
  finding.fix.change = std::move(change);
  return finding;
}

std::string first_of(std::vector<Finding> findings) {
  return best_of(findings)->id;
}

TEST(Ranking, ASleepMayHaveToStay) {
  Finding sleeps = predicted("host-work", Bottleneck::Host, 2);
  const Finding buffer = predicted("dataloader-prefetch", Bottleneck::Input, 1.5);
  EXPECT_EQ(first_of({sleeps, buffer}), "host-work");
  sleeps.may_have_to_stay = true;
  EXPECT_EQ(first_of({sleeps, buffer}), "dataloader-prefetch");  // 0.25 of the step against 0.33
  EXPECT_EQ(first_of({sleeps, predicted("dataloader-prefetch", Bottleneck::Input, 1.2)}), "host-work");
  EXPECT_DOUBLE_EQ(expected_recovery(sleeps), 0.25);
}

TEST(Ranking, AnOptionComesFirstUnlessTheCodeCouldBringTwiceAsMuch) {
  const Finding workers =
      bound("dataloader-workers", Bottleneck::Input, 6, LoaderChange{LoaderOption::kNumWorkers, 9});
  EXPECT_EQ(first_of({bound("input-decode", Bottleneck::Input, 10), workers}), "dataloader-workers");
  EXPECT_EQ(first_of({bound("input-small-files", Bottleneck::Input, 31), workers}), "input-small-files");
}

TEST(Ranking, EndingTheReadsComesBeforeMoreReaders) {
  const Finding workers =
      bound("dataloader-workers", Bottleneck::Input, 6, LoaderChange{LoaderOption::kNumWorkers, 9});
  const auto copy = [](double speedup) {
    return bound("input-remote-storage", Bottleneck::Input, speedup, StorageChange{"local"});
  };
  EXPECT_EQ(first_of({workers, copy(8)}), "input-remote-storage");
  EXPECT_EQ(first_of({workers, copy(5)}), "dataloader-workers");
}

TEST(Ranking, APredictionComesBeforeAnyBoundOfTheSameBottleneck) {
  const Finding sync = predicted("sync-per-step", Bottleneck::Host, 1.3);
  EXPECT_EQ(first_of({bound("host-work", Bottleneck::Host, 31), sync}), "sync-per-step");
}

// Transforms that could gain 1.13 times came before evaluation that took 63% of the run.
TEST(Ranking, WhatTakesMostOfTheRunIsNotBehindWhatTakesLittleOfAStep) {
  Finding evaluation = bound("evaluation-share", Bottleneck::Host, 2.7);
  evaluation.bottleneck.reset();
  evaluation.is_of_the_run = true;
  EXPECT_EQ(first_of({bound("input-decode", Bottleneck::Input, 1.13), evaluation}), "evaluation-share");
  EXPECT_EQ(first_of({predicted("dataloader-workers", Bottleneck::Input, 2), evaluation}),
            "dataloader-workers");
}

// Half of a bound of 10 is 45% of the step.
TEST(Ranking, AnOptionThatHardlyHelpsComesAfterTheCodeThatCosts) {
  const auto workers = [](double speedup) {
    Finding finding = predicted("dataloader-workers", Bottleneck::Input, speedup);
    finding.fix.change = LoaderChange{LoaderOption::kNumWorkers, 2};
    return finding;
  };
  const Finding decode = bound("input-decode", Bottleneck::Input, 10);
  EXPECT_EQ(first_of({decode, workers(1.13)}), "input-decode");
  EXPECT_EQ(first_of({decode, workers(2)}), "dataloader-workers");
}

}  // namespace
}  // namespace gpuwatch::advise
