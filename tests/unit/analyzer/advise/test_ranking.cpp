// SPDX-License-Identifier: Apache-2.0
// Which of two findings comes first, by what is known of their gains.
#include <gtest/gtest.h>

#include <utility>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/diagnose.h"
#include "analyzer/advise/ranking.h"
#include "tests/unit/analyzer/advise/epochs.h"
#include "tests/unit/analyzer/synthetic_run.h"

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

// Training on both cores, next to workers that compute: seven programs of eight became slower with more of
// them. It is no reason to keep quiet about fewer, or about the ones that start again each epoch.
TEST(Ranking, OnlyMoreWorkersWouldCompete) {
  const test::Job job = test::make_loader_job({.workers = 4, .cpu_share = 1});
  auto loader = predict::extract_loader(job.run, job.ranks.front());
  ASSERT_TRUE(loader);
  RuleInput input{.run = job.run, .rank = job.ranks.front(), .process = job.run.processes.front()};
  input.loader = &*loader;
  const auto is_named = [&](LoaderChange change) {
    Finding finding = predicted("", Bottleneck::Input, 1.3);
    finding.prediction->speedup = {0.9, 1.3, 1.8};
    finding.severity = Severity::kMajor;
    finding.fix.change = change;
    return is_worth_naming(input, finding);
  };
  EXPECT_TRUE(is_named({LoaderOption::kNumWorkers, 8}));
  loader->think_cores_known = true;
  loader->think_cores = 2;
  EXPECT_FALSE(is_named({LoaderOption::kNumWorkers, 8}));
  EXPECT_TRUE(is_named({LoaderOption::kNumWorkers, 2}));
  EXPECT_TRUE(is_named({LoaderOption::kPersistentWorkers, true}));
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

// What handing over 9 MB a batch costs had not been seen: num_workers=1 achieved 1.40, threads 1.09.
TEST(Ranking, ARangeTooWideToBeGivenSaysNoLessThanABound) {
  const Finding threads = bound("intra-op-threads", Bottleneck::Host, 1.41);
  const auto workers = [](double low) {
    Finding finding = predicted("dataloader-workers", Bottleneck::Input, 1.49);
    finding.prediction->speedup = {low, 1.49, 1.73};
    return finding;
  };
  Finding wide = workers(1.01), loses = workers(0.99);
  give_as_bound(wide);
  give_as_bound(loses);
  EXPECT_EQ(first_of({threads, wide}), "dataloader-workers");
  EXPECT_NEAR(expected_recovery(wide), (1 - 1 / 1.49) / 2, 1e-9);
  EXPECT_EQ(first_of({threads, loses}), "intra-op-threads");
  EXPECT_EQ(first_of({threads, workers(1.01)}), "intra-op-threads") << "of one that is given, its low end";
  EXPECT_EQ(first_of({bound("host-work", Bottleneck::Host, 1.6), wide}), "host-work");
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

// 3.5 ms of host work came before the Python loop that launched 1200 kernels in 30 ms, since that had a bound
// only.
TEST(Ranking, APredictionComesBeforeABoundOfTheSameBottleneckUnlessItHardlyHelps) {
  const Finding work = predicted("host-work", Bottleneck::Host, 1.1);
  EXPECT_EQ(first_of({bound("launch-bound", Bottleneck::Host, 1.2), work}), "host-work");
  EXPECT_EQ(first_of({bound("launch-bound", Bottleneck::Host, 3.6), work}), "launch-bound");
}

// Photos of 1600x1200, shown in 96 pixels: smaller files gained 7 times, and memory that malloc keeps "up to
// 2".
TEST(Ranking, OfARangeThatIsTooWideTheMiddleCounts) {
  Finding faults = predicted("page-faults", Bottleneck::Input, 1.3);
  faults.prediction->speedup = {0.9, 1.3, 2};
  Finding decode = bound("input-decode", Bottleneck::Input, 97);
  decode.lost_share = 0.8;
  EXPECT_EQ(first_of({decode, faults}), "page-faults");
  faults.too_wide = std::exchange(faults.prediction, std::nullopt);
  faults.ceiling_speedup = 2;
  EXPECT_EQ(first_of({decode, faults}), "input-decode");
  faults.fix.change = LoaderChange{LoaderOption::kNumWorkers, 2};
  EXPECT_EQ(first_of({decode, faults}), "page-faults") << "an option of the loader is easier to try";
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

// Saves between the steps took 43% of a run, without them it was 2.3 times as fast; launches took 45% of
// steps that were 42% of it.
TEST(Ranking, AShareOfTheStepsCountsAsThatOfTheRun) {
  Finding saves = bound("checkpoint-stall", Bottleneck::Host, 1 / (1 - 0.43));
  saves.is_of_the_run = true;
  Finding launches = bound("launch-bound", Bottleneck::Host, 2.5);
  launches.lost_share = 0.45;
  launches.too_wide = predicted("", Bottleneck::Host, 1.7).prediction;
  EXPECT_EQ(first_of({launches, saves}), "launch-bound");
  launches.part_of_run = 0.42;
  EXPECT_EQ(first_of({launches, saves}), "checkpoint-stall");
}

// A hook that waited for the GPU after each layer: 1.5 times without it, "up to 3.8" with 16 times the batch.
TEST(Ranking, ALargerBatchComesAfterWhatIsKnownToCost) {
  Finding batch = bound("small-batch", Bottleneck::Compute, 3.8);
  batch.may_have_to_stay = true;
  EXPECT_EQ(first_of({batch, predicted("sync-per-step", Bottleneck::Host, 1.5)}), "sync-per-step");
  EXPECT_EQ(first_of({batch, predicted("sync-per-step", Bottleneck::Host, 1.1)}), "small-batch");
}

// 30 layers of short kernels with a batch of 256, and tabular data with 128 rows a batch (16 times as many
// gained 6.6 times, a graph at most 2.2).
TEST(Ranking, ALargerBatchComesFirstWhereItCertainlyGainsTwiceAsMuch) {
  Finding batch = bound("small-batch", Bottleneck::Host, 8);
  batch.may_have_to_stay = batch.is_conditional = true;
  batch.too_wide = predicted("", Bottleneck::Host, 3).prediction;
  const Finding graph = bound("launch-bound", Bottleneck::Host, 2.1);
  EXPECT_EQ(first_of({batch, graph}), "launch-bound");
  batch.too_wide = predicted("", Bottleneck::Host, 4.4).prediction;
  EXPECT_EQ(first_of({batch, graph}), "small-batch");
  EXPECT_EQ(first_of({batch, predicted("sync-per-step", Bottleneck::Host, 2.5)}), "sync-per-step");
  Finding waits = predicted("sync-per-step", Bottleneck::Host, 1.2);
  EXPECT_EQ(first_of({batch, waits}), "small-batch");
  waits.fix.change = StreamChange{StreamEdit::kDropSynchronizations, "synchronisation", ""};
  EXPECT_EQ(first_of({batch, waits}), "sync-per-step") << "the script's own fault, however little";
  // Each sample's gradient by itself: twice the lot took twice the time.
  Finding loop = graph;
  loop.fix.change = StreamChange{StreamEdit::kMergeOwnLaunches, "operations", "fewer"};
  EXPECT_EQ(first_of({batch, loop}), "launch-bound") << "a loop over samples launches more for more of them";
}

// Data that are read later wait for no work of the script any more, whichever gains more by a little.
TEST(Ranking, ReadingLaterComesAfterTheWorkAndOnlyAfterThat) {
  Finding later = predicted("sync-per-step", Bottleneck::Host, 1.43);
  later.fix.change = StreamChange{StreamEdit::kDropSynchronizations, "synchronisation", ""};
  later.is_alternative = true;
  Finding work = predicted("host-work", Bottleneck::Host, 1.4);
  later.ranks = work.ranks = {0};
  EXPECT_EQ(first_of({later, work}), "sync-per-step") << "of other work";
  work.fix.change = StreamChange{StreamEdit::kShortenHostWork, "own work", "every 50 steps"};
  EXPECT_EQ(first_of({later, work}), "host-work");
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
  Finding in_vain = decode;
  in_vain.is_in_vain = true;
  EXPECT_EQ(first_of({in_vain, workers(2)}), "input-decode") << "its whole bound counts";
  EXPECT_EQ(first_of({in_vain, workers(12)}), "dataloader-workers");
}

// Epochs of eight batches: what starting workers would take is open, so that the interval holds a loss.
// Training computes on both cores in half of each step. Whether fetches sleep or compute decides.
std::string first_with_fetches_that_compute(double cpu_share) {
  constexpr double kMs = 10;  // of a fetch, and of the work between two
  test::Job job = test::make_loader_job(
      {.workers = 0, .batches = 60, .cpu_count = 2, .cpu_share = cpu_share, .think_ms = [](size_t) {
         return kMs;
       }});
  test::split_into_epochs(job.process(), 8);
  const model::TimeSpan steps{job.rank().steps.front().step.begin, job.rank().steps.back().step.end};
  for (const model::Ns time : {steps.begin, steps.end}) {
    model::MachineSample sample{};
    sample.time = time;
    sample.cpu_ns = model::Ns((2 + cpu_share) / 2 * double(time));
    sample.cpu_total_ns = 2 * time;
    sample.cpu_idle_ns = 2 * time - sample.cpu_ns;
    job.process().machine_samples.push_back(sample);
  }
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  const Finding* first = first_complaint(diagnosis.findings);
  return first ? first->id : "none";
}

TEST(Ranking, WorkersThatSleepDoNotCompeteWithTraining) {
  EXPECT_EQ(first_with_fetches_that_compute(0.03), "dataloader-workers");
  EXPECT_NE(first_with_fetches_that_compute(0.95), "dataloader-workers");
}

}  // namespace
}  // namespace gpuwatch::advise
