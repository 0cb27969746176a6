// SPDX-License-Identifier: Apache-2.0
// Several ranks of one job: whose step the verdict is about, whose advice comes first, and what it gains the
// job.
#include <gtest/gtest.h>

#include <algorithm>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/job_gains.h"
#include "found.h"

namespace gpuwatch::advise {
namespace {

using attribute::Bottleneck;
using attribute::Category;

constexpr double kStepMs = 240;

// Its one worker takes 240 ms for a batch, which training waits for 180 ms.
test::Job late_rank() {
  return test::make_loader_job({.workers = 1,
                                .batches = 100,
                                .service_ms = [](size_t) { return kStepMs; },
                                .think_ms = [](size_t) { return 60.0; }});
}

// Its data is there at once; it works `own_ms` of a step and waits for its peer the rest of it.
test::Job waiting_rank(double own_ms, double step_ms = kStepMs, size_t batches = 100) {
  test::Job job = test::make_loader_job({.workers = 1,
                                         .batches = batches,
                                         .service_ms = [](size_t) { return 1.0; },
                                         .think_ms = [=](size_t) { return step_ms; }});
  test::set_shares(job, {{Category::CommHost, 1 - own_ms / step_ms}});
  return job;
}

// Without an optimizer's step nothing is said of gradients.
void optimize(test::Job& job) {
  const model::Ns end = job.rank().steps.back().step.end;
  job.process().threads[job.process().training_thread].calls.push_back(
      {end - 1, end, 0, 0, model::kNone, 0, trace::OpClass::OptimizerStep, 0});
}

bool is_said(const Diagnosis& diagnosis, const std::string& words) {
  return std::ranges::any_of(
      diagnosis.limits, [&](const Limit& limit) { return limit.sentence.find(words) != std::string::npos; });
}

// Where rank 0 came first, its "more workers gain nothing" stood under the verdict of rank 1.
TEST(Ranks, TheAdviceIsTheLateRanks) {
  for (const size_t late : {0u, 1u}) {
    std::vector<test::Job> jobs = {waiting_rank(60), waiting_rank(60)};
    jobs[late] = late_rank();
    const test::Job job = test::join_ranks(jobs);
    const Diagnosis diagnosis = diagnose(job.run, job.ranks);
    const std::string name = "rank " + std::to_string(late), other = "rank " + std::to_string(1 - late);
    EXPECT_EQ(diagnosis.verdict.id, "input-bound");
    EXPECT_NE(diagnosis.verdict.sentence.find("on " + name + "; " + other + " waits for it 75% of each step"),
              std::string::npos)
        << diagnosis.verdict.sentence;
    const Finding* first = first_complaint(diagnosis.findings);
    ASSERT_TRUE(first);
    EXPECT_EQ(first->id, "dataloader-workers");
    EXPECT_EQ(first->ranks, std::vector<uint32_t>{uint32_t(late)});
    EXPECT_EQ(diagnosis.unproposed_on, name);
    const Finding* straggler = find(diagnosis, "straggler");
    ASSERT_TRUE(straggler);
    EXPECT_FALSE(straggler->is_complaint());  // its cause has a finding
    EXPECT_NE(straggler->title.find("the other ranks wait for " + name + " 75%"), std::string::npos)
        << straggler->title;
  }
}

TEST(Ranks, AGainEndsAtTheNextRanksOwnWork) {
  for (const double own_ms : {60.0, 100.0, 150.0}) {
    const test::Job job = test::join_ranks({waiting_rank(own_ms), late_rank()});
    const Found workers(job, "dataloader-workers");
    ASSERT_TRUE(workers);
    ASSERT_TRUE(workers->prediction);
    EXPECT_NEAR(workers->prediction->now, kStepMs, 3);
    EXPECT_NEAR(workers->prediction->value.expected, own_ms, 3) << own_ms;
    EXPECT_NEAR(workers->prediction->speedup.expected, kStepMs / own_ms, 0.2);
    EXPECT_LE(workers->prediction->value.low, workers->prediction->value.expected);
    EXPECT_GE(workers->prediction->value.high, workers->prediction->value.expected);
  }
}

TEST(Ranks, TheCeilingOfTheVerdictIsTheJobs) {
  const test::Job job = test::join_ranks({waiting_rank(120), late_rank()});
  EXPECT_NEAR(diagnose(job.run, job.ranks).verdict.ceiling_speedup, 2, 0.05);
}

TEST(Ranks, OfFourRanksOneIsLate) {
  const test::Job job = test::join_ranks({waiting_rank(60), waiting_rank(70), late_rank(), waiting_rank(80)});
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  EXPECT_NE(diagnosis.verdict.sentence.find("on rank 2; the other 3 ranks wait for it"), std::string::npos)
      << diagnosis.verdict.sentence;
  EXPECT_NEAR(find(diagnosis, "dataloader-workers")->prediction->value.expected, 80, 3);
}

TEST(Ranks, EqualRanksKeepTheirGain) {
  const test::Job alone = late_rank();
  const Found of_one(alone, "dataloader-workers");
  std::vector<test::Job> jobs = {late_rank(), late_rank()};
  for (test::Job& job : jobs)
    test::set_shares(job, {{Category::InputTransform, 0.75}, {Category::CommHost, 0.02}});
  const test::Job job = test::join_ranks(jobs);
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  const Finding* of_both = find(diagnosis, "dataloader-workers");
  ASSERT_TRUE(of_one && of_both);
  EXPECT_EQ(of_both->ranks, (std::vector<uint32_t>{0, 1}));
  EXPECT_NEAR(of_both->prediction->value.expected, of_one->prediction->value.expected, 4);
  EXPECT_FALSE(find(diagnosis, "straggler"));
  EXPECT_EQ(diagnosis.verdict.sentence.find("wait for it"), std::string::npos);
}

// Nothing says why a rank computes longer than the others, and that is its finding.
TEST(Ranks, ARankLateByComputingIsAComplaint) {
  for (const bool has_device : {false, true}) {
    const Category waiting = has_device ? Category::CommUnsplit : Category::CommHost;
    const auto rank = [&] {
      return has_device ? test::make_device_job({{.gap_us = 10, .device_us = 90'000}}, 60)
                        : waiting_rank(kStepMs);
    };
    test::Job other = rank(), late = rank();
    if (has_device) late.process().devices[0].ordinal = 1;
    test::set_shares(other, {{waiting, 0.5}});
    test::set_shares(late, {});
    optimize(other);
    const test::Job job = test::join_ranks({other, late});
    const Diagnosis diagnosis = diagnose(job.run, job.ranks);
    const Finding* straggler = find(diagnosis, "straggler");
    ASSERT_TRUE(straggler);
    EXPECT_TRUE(straggler->is_complaint());
    EXPECT_EQ(straggler->ranks, std::vector<uint32_t>{1});
    EXPECT_EQ(straggler->bottleneck, Bottleneck::Compute);
    EXPECT_NEAR(*straggler->ceiling_speedup, 2, 0.05);
    EXPECT_NE(diagnosis.verdict.id, "comm-bound");
    EXPECT_NE(diagnosis.verdict.id, "healthy");
    EXPECT_NE(diagnosis.verdict.sentence.find("on rank 1; rank 0 waits for it 50% of each step"),
              std::string::npos)
        << diagnosis.verdict.sentence;
    EXPECT_FALSE(find(diagnosis, "exposed-communication"));
  }
}

// In each second step this rank waits for the other, 40% of it; in the others it works longer at `more`.
test::Job rank_by_turns(size_t turn, Category more) {
  test::Job job = waiting_rank(kStepMs);
  attribute::RankAttribution& rank = job.rank();
  rank.times.fill(0);
  for (size_t i = 0; i < rank.steps.size(); ++i) {
    attribute::StepAttribution& step = rank.steps[i];
    const auto part = model::Ns(0.4 * double(step.step.end - step.step.begin));
    step.times.fill(0);
    step.times[size_t(Category::Compute)] = step.step.end - step.step.begin - part;
    step.times[size_t(i % 2 == turn ? Category::CommHost : more)] += part;
    for (size_t c = 0; c < attribute::kCategoryCount; ++c) rank.times[c] += step.times[c];
  }
  optimize(job);
  return job;
}

TEST(Ranks, WaitForEachOtherByTurnsWhereBatchesAreUnequal) {
  const auto diagnose_turns = [](Category more) {
    const test::Job job = test::join_ranks({rank_by_turns(0, more), rank_by_turns(1, more)});
    return diagnose(job.run, job.ranks);
  };
  const Diagnosis diagnosis = diagnose_turns(Category::Compute);
  EXPECT_FALSE(find(diagnosis, "straggler"));
  const Finding* imbalance = find(diagnosis, "load-imbalance");
  ASSERT_TRUE(imbalance);
  EXPECT_NEAR(*imbalance->ceiling_speedup, 1 / (1 - 0.2), 0.02);
  EXPECT_EQ(diagnosis.findings.front().id, "load-imbalance");
  EXPECT_FALSE(find(diagnosis, "exposed-communication"));  // all of it is waiting
  EXPECT_FALSE(find(diagnose_turns(Category::InputTransform), "load-imbalance"));
}

TEST(Ranks, LimitsNameTheirRank) {
  test::Job late = late_rank();
  test::set_shares(late, {{Category::HostCompute, 0.5}});
  const test::Job job = test::join_ranks({waiting_rank(60), late});
  EXPECT_TRUE(is_said(diagnose(job.run, job.ranks), "Rank 1: no rule explains 50% of each step"));
}

TEST(Ranks, ALimitOfSeveralRanksIsSaidOnce) {
  const auto rank = [](size_t batches) { return waiting_rank(60, kStepMs, batches); };
  const test::Job all = test::join_ranks({rank(15), rank(15), rank(15)});
  EXPECT_TRUE(is_said(diagnose(all.run, all.ranks), "All ranks: only "));
  const test::Job some = test::join_ranks({rank(15), rank(40), rank(15)});
  EXPECT_TRUE(is_said(diagnose(some.run, some.ranks), "Ranks 0, 2: only "));
  EXPECT_FALSE(is_said(diagnose(some.run, some.ranks), "Rank 0: only "));
}

// ---- gains of findings that are made up

Finding predicted(const char* id, uint32_t rank, double now, double after, Bottleneck about) {
  Finding finding;
  finding.id = id;
  finding.ranks = {rank};
  finding.bottleneck = about;
  finding.explains = about;
  predict::Prediction prediction;
  prediction.now = now;
  prediction.value = {after * 0.97, after, after * 1.03};
  prediction.speedup = {now / prediction.value.high, now / after, now / prediction.value.low};
  finding.prediction = finding.alone = prediction;
  return finding;
}

class JobGains : public testing::Test {
 protected:
  // Rank 1 comes last by 180 ms.
  test::Job job_ = test::join_ranks({waiting_rank(60), late_rank()});
  std::vector<attribute::StepGroup> groups_ = attribute::step_groups(job_.run, job_.ranks);
  JobFindings settle(std::vector<Finding> late, std::vector<Finding> waiting) {
    return for_whole_job(groups_.at(0), job_.ranks, {{1, std::move(late)}, {0, std::move(waiting)}});
  }
};

TEST_F(JobGains, OfARankThatWaitsThereAreNone) {
  EXPECT_TRUE(settle({}, {predicted("a", 0, 240, 200, Bottleneck::Compute)}).findings.empty());
  Finding bound = predicted("a", 0, 240, 200, Bottleneck::Communication);
  bound.prediction = bound.alone = std::nullopt;
  bound.ceiling_speedup = 4;
  EXPECT_TRUE(settle({}, {bound}).findings.empty());
}

// Once the late rank is on time, the next one's own work is the step.
TEST_F(JobGains, ComeOneAfterTheOther) {
  const JobFindings job = settle({predicted("a", 1, 240, 50, Bottleneck::Input)},
                                 {predicted("b", 0, 240, 220, Bottleneck::Compute)});
  ASSERT_EQ(job.findings.size(), 2u);
  EXPECT_NEAR(job.findings[0].prediction->value.expected, 60, 1);
  EXPECT_NEAR(job.findings[1].prediction->now, 60, 1);
  EXPECT_NEAR(job.findings[1].prediction->value.expected, 50, 1);
  ASSERT_TRUE(job.together);
  EXPECT_NEAR(job.together->now, 240, 1);
  EXPECT_NEAR(job.together->value.expected, 50, 1);
}

// Rank 1 may come down to 30 ms; the job's step stays at rank 0's 60.
TEST_F(JobGains, ThatAreTooOpenOnOneRankMayNotBeForTheJob) {
  const auto open = [](double low) {
    Finding finding = predicted("a", 1, 240, 62, Bottleneck::Input);
    finding.prediction->value = {low, 62, 66};
    finding.alone = std::nullopt;
    finding.ceiling_speedup = 10;
    bound_what_is_open(finding);
    return finding;
  };
  Finding wide = open(30);
  ASSERT_TRUE(!wide.prediction && wide.ceiling_speedup);
  const JobFindings job = settle({wide}, {});
  ASSERT_EQ(job.findings.size(), 1u);
  ASSERT_TRUE(job.findings[0].prediction);
  EXPECT_NEAR(job.findings[0].prediction->value.low, 60, 2);
  EXPECT_NEAR(job.findings[0].prediction->value.high, 66, 1);
  EXPECT_FALSE(job.findings[0].ceiling_speedup || job.findings[0].too_wide);

  wide.prediction = wide.too_wide = std::nullopt;  // a rule that only knows a bound
  wide.is_wide_range = false;
  EXPECT_FALSE(settle({wide}, {}).findings.at(0).prediction);

  wide = open(30);
  wide.too_wide->value.high = 120;
  const JobFindings still = settle({wide}, {});
  EXPECT_FALSE(still.findings.at(0).prediction);
  EXPECT_NEAR(still.findings.at(0).ceiling_speedup.value_or(0), 4, 0.1);  // and not 10
}

// One setting of the script is that of all ranks: who has less of the same gains less.
TEST_F(JobGains, OfAChangeThatAllRanksMake) {
  test::set_shares(job_, {{Category::CommHost, 0.5}, {Category::InputTransform, 0.25}});  // rank 0
  groups_ = attribute::step_groups(job_.run, job_.ranks);
  const JobFindings job = settle({predicted("a", 1, 240, 60, Bottleneck::Input)}, {});
  ASSERT_EQ(job.findings.size(), 1u);
  EXPECT_NEAR(job.findings[0].prediction->value.expected, 60, 2);  // and not rank 0's 120
}

TEST_F(JobGains, LeaveWhatIsNotAboutStepsAlone) {
  Finding of_the_run = predicted("a", 0, 240, 200, Bottleneck::Compute);
  of_the_run.is_of_the_run = true;
  Finding note = predicted("b", 0, 240, 200, Bottleneck::Compute);
  note.severity = Severity::kInfo;
  EXPECT_EQ(settle({}, {of_the_run, note}).findings.size(), 2u);
}

}  // namespace
}  // namespace gpuwatch::advise
